// apply_patch: a tool that the client runs, offered to every model; natively where a Responses upstream has it.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { start, toolTexts } from './harness.mjs';

const patch = { type: 'apply_patch' };
const operation = { type: 'update_file', path: 'src/a.js', diff: '@@\n-one\n+two\n' };

/** Streams one request through the strict helper. */
async function follow(client, body) {
  const stream = client.responses.stream(body);
  for await (const event of stream) void event;
  return stream.finalResponse();
}

for (const way of ['a chain', 'the whole history']) {
  test(`a patch goes to the client as an item and its output continues, by ${way}`, async (t) => {
    const script = (body, n) => n === 0 ? { text: 'I change it. ', calls: [{ name: 'apply_patch', args: { operation } }] } : { text: 'Changed.' };
    const s = await start(t, { script });
    const first = await follow(s.client, { model: 'mock/mock-1', tools: [patch], input: 'change it' });
    assert.equal(first.status, 'completed');
    const calls = first.output.filter((i) => i.type === 'apply_patch_call');
    assert.equal(calls.length, 1);
    assert.deepEqual(calls[0].operation, operation);
    assert.equal(calls[0].status, 'completed');
    assert.equal(s.upstream.seen[0].tools[0].function.name, 'apply_patch');
    const answer = { type: 'apply_patch_call_output', call_id: calls[0].call_id, status: 'failed', output: 'line 3 is not there' };
    const second = await follow(s.client, way === 'a chain'
      ? { model: 'mock/mock-1', tools: [patch], previous_response_id: first.id, input: [answer] }
      : { model: 'mock/mock-1', tools: [patch], store: false, input: [{ role: 'user', content: 'change it' }, ...first.output, answer] });
    assert.equal(second.output_text, 'Changed.');
    assert.equal(toolTexts(s.upstream.seen[1])[0], '{"status":"failed","output":"line 3 is not there"}');
  });
}

test('a patch without its output is a 400', async (t) => {
  const s = await start(t, { script: () => ({ calls: [{ name: 'apply_patch', args: { operation } }] }) });
  const first = await s.client.responses.create({ model: 'mock/mock-1', tools: [patch], input: 'change it' });
  await assert.rejects(s.client.responses.create({ model: 'mock/mock-1', tools: [patch], previous_response_id: first.id, input: 'well?' }),
    (error) => error.status === 400 && /No tool output found for apply patch call/.test(error.message));
});

test('a Responses upstream that has the tool gets it as its own', async (t) => {
  const seen = [];
  const server = createServer(async (req, res) => {
    let raw = '';
    for await (const piece of req) raw += piece;
    const body = JSON.parse(raw);
    seen.push(body);
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (type, rest) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: 0, ...rest })}\n\n`);
    send('response.created', { response: { id: 'resp_up', status: 'in_progress', output: [] } });
    const item = seen.length === 1
      ? { id: 'apc_up', type: 'apply_patch_call', call_id: 'call_up', status: 'completed', operation }
      : { id: 'msg_up', type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'Changed.', annotations: [] }] };
    send('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress' } });
    send('response.output_item.done', { output_index: 0, item });
    send('response.completed', { response: { id: 'resp_up', status: 'completed', output: [item] } });
    res.end();
  });
  await new Promise((ok) => server.listen(0, '127.0.0.1', ok));
  t.after(() => { server.closeAllConnections(); server.close(); });
  const s = await start(t, { toml: `[providers.vendor]\ntype = "openai"\nbase_url = "http://127.0.0.1:${server.address().port}/v1"\napi_key = "sk-vendor"\nnative_shell = "on"\nmodels = ["gpt-5.2"]\n` });
  const first = await follow(s.client, { model: 'vendor/gpt-5.2', tools: [patch], input: 'change it' });
  const [call] = first.output;
  assert.deepEqual([call.type, call.operation], ['apply_patch_call', operation]);
  assert.ok(!JSON.stringify(first).includes('_up'), 'no id of the upstream');
  assert.deepEqual(seen[0].tools, [patch]);
  const second = await follow(s.client, { model: 'vendor/gpt-5.2', tools: [patch], previous_response_id: first.id,
    input: [{ type: 'apply_patch_call_output', call_id: call.call_id, status: 'completed' }] });
  assert.equal(second.output_text, 'Changed.');
  const [, sent, result] = seen[1].input;
  assert.deepEqual([sent.type, sent.operation, result.type, result.status], ['apply_patch_call', operation, 'apply_patch_call_output', 'completed']);
  assert.equal(sent.call_id, result.call_id);
});
