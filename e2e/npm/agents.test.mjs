// The official Agents SDK as a client: its local shell and its hosted one, behind every dialect of upstream.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { Agent, OpenAIProvider, Runner, shellTool } from '@openai/agents';
import { run as call, start, toolTexts } from './harness.mjs';

const runner = (s) => new Runner({ modelProvider: new OpenAIProvider({ apiKey: s.key, baseURL: `${s.url}/v1`, useResponses: true }), tracingDisabled: true });

/** The client's own shell. It remembers what it was asked. */
function hands(output = (command) => new Promise((done) => {
  execFile('/bin/sh', ['-c', command], (error, stdout, stderr) => done({ stdout, stderr, outcome: { type: 'exit', exitCode: error ? error.code : 0 } }));
})) {
  const asked = [];
  return { asked, async run(action) {
    asked.push(action);
    return { output: await Promise.all(action.commands.map(output)), maxOutputLength: action.maxOutputLength };
  } };
}

const types = (result) => result.newItems.map((item) => item.type);

/** The requests that a server was sent, seen from the client. */
async function counted(s) {
  const seen = [];
  const front = createServer(async (req, res) => {
    const pieces = [];
    for await (const piece of req) pieces.push(piece);
    const raw = Buffer.concat(pieces);
    if (req.method === 'POST') seen.push(JSON.parse(raw.toString()));
    const answer = await fetch(s.url + req.url, { method: req.method, headers: { authorization: req.headers.authorization, 'content-type': 'application/json' }, body: req.method === 'POST' ? raw : undefined });
    res.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') });
    for await (const piece of answer.body) res.write(piece);
    res.end();
  });
  await new Promise((ok) => front.listen(0, '127.0.0.1', ok));
  return { url: `http://127.0.0.1:${front.address().port}`, key: s.key, seen, close: () => { front.closeAllConnections(); front.close(); } };
}

// wire.md 28
test('a local shell with approval: it interrupts, is approved, and goes on; the gateway runs nothing', async (t) => {
  const script = (body, n) => n === 0 ? { calls: [call('echo from $((6*7))', 'echo problem >&2; exit 3')] } : { text: 'It said 42.' };
  const s = await start(t, { script });
  const shell = hands();
  const agent = new Agent({ name: 'A', model: 'mock/mock-1', instructions: 'Be brief.', tools: [shellTool({ shell, needsApproval: true })] });
  const r = runner(s);
  const first = await r.run(agent, 'what is it?');
  assert.equal(first.interruptions.length, 1);
  assert.equal(shell.asked.length, 0);
  for (const interruption of first.interruptions) first.state.approve(interruption);
  const second = await r.run(agent, first.state);
  assert.equal(second.finalOutput, 'It said 42.');
  assert.deepEqual(shell.asked[0].commands, ['echo from $((6*7))', 'echo problem >&2; exit 3']);
  assert.equal(shell.asked.length, 1);
  const seen = toolTexts(s.upstream.seen[1])[0];
  assert.ok(seen.includes('from 42') && seen.includes('problem') && seen.includes('"exit_code":3'), seen);
  assert.equal((await s.client.containers.list()).data.length, 0);
});

test('a local shell whose call is rejected: the model reads why', async (t) => {
  const script = (body, n) => n === 0 ? { calls: [call('touch never')] } : { text: 'As you like.' };
  const s = await start(t, { script });
  const shell = hands();
  const agent = new Agent({ name: 'A', model: 'mock/mock-1', tools: [shellTool({ shell, needsApproval: true })] });
  const r = runner(s);
  const first = await r.run(agent, 'do it');
  for (const interruption of first.interruptions) first.state.reject(interruption);
  const second = await r.run(agent, first.state);
  assert.equal(second.finalOutput, 'As you like.');
  assert.equal(shell.asked.length, 0);
  assert.match(toolTexts(s.upstream.seen[1])[0], /not approved|rejected|denied/i);
});

// wire.md 29
for (const how of ['plain', 'streamed']) {
  for (const where of ['container_auto', 'container_reference']) {
    test(`a hosted shell in a ${where}, ${how}: one request, and its output is there`, async (t) => {
      const script = (body, n) => n === 0 ? { text: 'Let me look. ', calls: [call('echo hosted $((6*7))')] } : { text: 'It said 42.' };
      const s = await start(t, { script });
      const environment = where === 'container_auto' ? { type: where } : { type: where, containerId: (await s.client.containers.create({ name: 'c' })).id };
      const front = await counted(s);
      t.after(front.close);
      const agent = new Agent({ name: 'A', model: 'mock/mock-1', tools: [shellTool({ environment })] });
      const result = await runner(front).run(agent, 'what is it?', { stream: how === 'streamed' });
      const events = [];
      if (how === 'streamed') {
        for await (const event of result) if (event.type === 'run_item_stream_event') events.push(event.name);
        await result.completed;
      }
      assert.equal(result.finalOutput, 'It said 42.');
      assert.equal(front.seen.length, 1, 'the SDK asked once');
      const items = result.rawResponses.flatMap((r) => r.output);
      const output = items.find((item) => item.type === 'shell_call_output');
      assert.ok(output && JSON.stringify(output).includes('hosted 42'), JSON.stringify(items));
      if (how === 'streamed') assert.ok(events.includes('tool_called') && events.includes('message_output_created'), events.join());
    });
  }
}

// wire.md 30: the whole history goes each time, and whatever the upstream speaks, the client sees the same items.
const anthropic = (answer) => {
  const blocks = [...(answer.text ? [{ type: 'text', text: '' }] : []), ...(answer.calls ?? []).map((c, i) => ({ type: 'tool_use', id: `toolu_${answer.n}_${i}`, name: 'shell', input: {} }))];
  const events = [{ type: 'message_start', message: { id: 'msg_x', type: 'message', role: 'assistant', model: 'mock-1', content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 10, output_tokens: 1 } } }];
  blocks.forEach((block, index) => {
    events.push({ type: 'content_block_start', index, content_block: block });
    events.push({ type: 'content_block_delta', index, delta: block.type === 'text' ? { type: 'text_delta', text: answer.text } : { type: 'input_json_delta', partial_json: JSON.stringify(answer.calls[index - (answer.text ? 1 : 0)].args) } });
    events.push({ type: 'content_block_stop', index });
  });
  events.push({ type: 'message_delta', delta: { stop_reason: answer.calls?.length ? 'tool_use' : 'end_turn', stop_sequence: null }, usage: { output_tokens: 5 } }, { type: 'message_stop' });
  return events.map((e) => `event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`).join('');
};
const responses = (answer) => {
  const output = [...(answer.text ? [{ type: 'message', id: `msg_${answer.n}`, role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: answer.text, annotations: [] }] }] : []),
    ...(answer.calls ?? []).map((c, i) => ({ type: 'function_call', id: `fc_${answer.n}_${i}`, call_id: `call_${answer.n}_${i}`, name: 'shell', arguments: JSON.stringify(c.args), status: 'completed' }))];
  const response = { id: `resp_${answer.n}`, object: 'response', created_at: 1, model: 'mock-1', status: 'in_progress', output: [], usage: null };
  const events = [{ type: 'response.created', response }];
  output.forEach((item, output_index) => {
    events.push({ type: 'response.output_item.added', output_index, item: { ...item, status: 'in_progress', ...(item.type === 'message' ? { content: [] } : { arguments: '' }) } });
    if (item.type === 'message') {
      events.push({ type: 'response.content_part.added', output_index, item_id: item.id, content_index: 0, part: { type: 'output_text', text: '', annotations: [] } },
        { type: 'response.output_text.delta', output_index, item_id: item.id, content_index: 0, delta: answer.text },
        { type: 'response.output_text.done', output_index, item_id: item.id, content_index: 0, text: answer.text },
        { type: 'response.content_part.done', output_index, item_id: item.id, content_index: 0, part: item.content[0] });
    } else {
      events.push({ type: 'response.function_call_arguments.delta', output_index, item_id: item.id, delta: item.arguments },
        { type: 'response.function_call_arguments.done', output_index, item_id: item.id, arguments: item.arguments });
    }
    events.push({ type: 'response.output_item.done', output_index, item });
  });
  events.push({ type: 'response.completed', response: { ...response, status: 'completed', output, usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 } } });
  return events.map((e, sequence_number) => `event: ${e.type}\ndata: ${JSON.stringify({ ...e, sequence_number })}\n\n`).join('');
};
const gemini = (answer) => {
  const parts = [...(answer.text ? [{ text: answer.text }] : []), ...(answer.calls ?? []).map((c) => ({ functionCall: { name: 'shell', args: c.args } }))];
  return `data: ${JSON.stringify({ candidates: [{ index: 0, content: { role: 'model', parts }, finishReason: 'STOP' }], usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 } })}\n\n`;
};

/** An upstream of another dialect than the harness's: `speak` writes an answer. */
async function speaker(t, speak, script) {
  let n = 0;
  const server = createServer(async (req, res) => {
    let raw = '';
    for await (const piece of req) raw += piece;
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.end(speak({ n, ...script(JSON.parse(raw || '{}'), n++) }));
  });
  await new Promise((ok) => server.listen(0, '127.0.0.1', ok));
  t.after(() => { server.closeAllConnections(); server.close(); });
  return `http://127.0.0.1:${server.address().port}`;
}

const five = (body, n) => n < 4 ? { text: `Step ${n}. `, calls: [call(`echo step ${n}`)] } : { text: 'All is done.' };
const want = [...Array(4).fill(['message_output_item', 'tool_call_item', 'tool_call_output_item']).flat(), 'message_output_item'];

for (const [kind, speak, path] of [['chat'], ['anthropic', anthropic, ''], ['openai', responses, '/v1'], ['gemini', gemini, '/v1beta']]) {
  test(`five turns by the whole history, behind ${kind}`, async (t) => {
    const toml = speak && `[providers.other]\ntype = "${kind}"\nbase_url = "${await speaker(t, speak, five)}${path}"\napi_key = "none"\nmodels = ["mock-1"]\n`;
    const s = await start(t, speak ? { toml } : { script: five });
    const front = await counted(s);
    t.after(front.close);
    const shell = hands();
    const agent = new Agent({ name: 'A', model: speak ? 'other/mock-1' : 'mock/mock-1', instructions: 'Be brief.', tools: [shellTool({ shell })] });
    const result = await runner(front).run(agent, 'do five steps');
    assert.equal(result.finalOutput, 'All is done.');
    assert.deepEqual(types(result), want);
    assert.deepEqual(shell.asked.map((a) => a.commands[0]), [0, 1, 2, 3].map((n) => `echo step ${n}`));
    assert.equal(front.seen.length, 5);
    assert.ok(front.seen.every((body) => !body.previous_response_id), 'the history goes whole');
  });
}
