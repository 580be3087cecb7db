// A shell whose calls the client runs: behind any provider, by its own executor, through the official SDK.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { run, start, toolTexts } from './harness.mjs';

const local = { type: 'shell', environment: { type: 'local' } };

/** Runs a shell_call as a client's executor does, and makes the item that answers it. */
async function execute(call) {
  const output = await Promise.all(call.action.commands.map((command) => new Promise((done) => {
    execFile('/bin/sh', ['-c', command], (error, stdout, stderr) => done({ stdout, stderr, outcome: { type: 'exit', exit_code: error ? error.code : 0 } }));
  })));
  return { type: 'shell_call_output', call_id: call.call_id, output, max_output_length: call.action.max_output_length };
}

const script = (body, n) => n === 0 ? { text: 'Let me look. ', calls: [run('echo from $((6*7)); exit 3')] } : { text: 'It said 42.' };

for (const way of ['a chain', 'the whole history']) {
  test(`a client runs the calls of its local shell, by ${way}`, async (t) => {
    const s = await start(t, { script });
    const stream = s.client.responses.stream({ model: 'mock/mock-1', tools: [local], input: 'what is it?' });
    for await (const event of stream) void event;
    const first = await stream.finalResponse();
    assert.equal(first.status, 'completed');
    assert.equal(first.container_id ?? null, null);
    const calls = first.output.filter((item) => item.type === 'shell_call');
    assert.equal(calls.length, 1);
    assert.deepEqual(calls[0].environment, { type: 'local' });
    assert.ok(!first.output.some((item) => item.type === 'shell_call_output'), 'nothing is run by the server');
    const answer = await execute(calls[0]);
    const second = await s.client.responses.create(way === 'a chain'
      ? { model: 'mock/mock-1', tools: [local], previous_response_id: first.id, input: [answer] }
      : { model: 'mock/mock-1', tools: [local], store: false, input: [{ role: 'user', content: 'what is it?' }, ...first.output, answer] });
    assert.equal(second.output_text, 'It said 42.');
    const seen = toolTexts(s.upstream.seen[1])[0];
    assert.ok(seen.includes('from 42') && seen.includes('"exit_code":3'), `the model reads what the client's command said: ${seen}`);
    const containers = await s.client.containers.list();
    assert.equal(containers.data.length, 0);
  });
}

test('a call that the client leaves unanswered is a 400', async (t) => {
  const s = await start(t, { script });
  const first = await s.client.responses.create({ model: 'mock/mock-1', tools: [local], input: 'what is it?' });
  await assert.rejects(s.client.responses.create({ model: 'mock/mock-1', tools: [local], previous_response_id: first.id, input: 'well?' }),
    (error) => error.status === 400 && /No tool output found for shell call/.test(error.message));
});
