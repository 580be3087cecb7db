// Checks 1 to 6 and 12 of the wire reference, through the strictest parser there is: responses.stream().
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run, shell, start, toolTexts } from './harness.mjs';

/** Runs a streamed response through the helper and gathers what its events said. */
async function streamed(client, request) {
  const stream = client.responses.stream({ model: 'mock/mock-1', tools: [shell], ...request });
  const events = [];
  for await (const event of stream) events.push(event);
  return { events, final: await stream.finalResponse() };
}

const texts = (events, type) => events.filter((e) => e.type === type).map((e) => e.delta).join('');
const ofType = (final, type) => final.output.filter((item) => item.type === type);

test('1: a hosted shell turn has its call, its output and a message, and texts equal the deltas', async (t) => {
  const s = await start(t, { script: (body, n) => n === 0 ? { text: 'Let me look. ', calls: [run('echo hello; echo oops >&2; exit 3')] } : { text: 'It said hello and failed with 3.' } });
  const { events, final } = await streamed(s.client, { input: 'say hello' });
  assert.equal(final.status, 'completed');
  const [call] = ofType(final, 'shell_call');
  const [output] = ofType(final, 'shell_call_output');
  const message = ofType(final, 'message').at(-1);
  assert.deepEqual(call.action.commands, ['echo hello; echo oops >&2; exit 3']);
  assert.equal(call.status, 'completed');
  assert.equal(call.environment.type, 'container_reference');
  assert.match(call.environment.container_id, /^cntr_/);
  assert.equal(call.call_id, output.call_id);
  assert.notEqual(call.id, output.id);
  assert.equal(output.output[0].stdout, 'hello\n');
  assert.equal(output.output[0].stderr, 'oops\n');
  assert.deepEqual(output.output[0].outcome, { type: 'exit', exit_code: 3 });
  assert.equal(message.content[0].text, 'It said hello and failed with 3.');
  const said = ofType(final, 'message').map((m) => m.content[0].text).join('');
  assert.equal(texts(events, 'response.output_text.delta'), said);
  const out = events.filter((e) => e.type === 'response.shell_call_output_content.delta');
  assert.equal(out.map((e) => e.delta.stdout ?? '').join(''), 'hello\n');
  assert.equal(out.map((e) => e.delta.stderr ?? '').join(''), 'oops\n');
  assert.deepEqual(final.usage.input_tokens, 20, 'usage is summed over both model calls');
  events.forEach((e, i) => assert.equal(e.sequence_number, i, `event ${i} is numbered ${e.sequence_number}`));
  assert.ok(!events.some((e) => e.type.includes('function_call')), 'no function_call of ours reaches the client');
  assert.ok(toolTexts(s.upstream.seen[1])[0].includes('oops'), 'the model sees stderr');
  const stored = await s.client.responses.retrieve(final.id);
  assert.deepEqual(stored.output, final.output.map((item) => strip(item)), 'the stored response is the streamed one');
});

/** The helper adds `parsed` keys of its own. */
function strip(item) {
  return JSON.parse(JSON.stringify(item, (key, value) => (key === 'parsed' || key === 'parsed_arguments' ? undefined : value)));
}

test('2: two parallel calls whose outputs interleave keep their order in the final output', async (t) => {
  const s = await start(t, { script: (body, n) => n === 0
    ? { calls: [run('for i in 1 2 3; do echo a$i; sleep 0.2; done'), run('for i in 1 2 3; do echo b$i; sleep 0.2; done')] }
    : { text: 'both done' } });
  const { events, final } = await streamed(s.client, { input: 'race them' });
  const calls = ofType(final, 'shell_call');
  const outputs = ofType(final, 'shell_call_output');
  assert.equal(calls.length, 2);
  assert.equal(outputs.length, 2);
  for (const [i, letter] of ['a', 'b'].entries()) {
    const mine = outputs.find((o) => o.call_id === calls[i].call_id);
    assert.equal(mine.output[0].stdout, `${letter}1\n${letter}2\n${letter}3\n`);
  }
  const added = events.filter((e) => e.type === 'response.output_item.added');
  for (const e of added) assert.equal(final.output[e.output_index].id, e.item.id, 'final order is by output index');
  const first = events.findIndex((e) => e.type === 'response.shell_call_output_content.delta' && e.delta.stdout?.startsWith('a'));
  const lastB = events.findLastIndex((e) => e.type === 'response.shell_call_output_content.delta' && e.delta.stdout?.includes('b'));
  const lastA = events.findLastIndex((e) => e.type === 'response.shell_call_output_content.delta' && e.delta.stdout?.includes('a'));
  const firstB = events.findIndex((e) => e.type === 'response.shell_call_output_content.delta' && e.delta.stdout?.startsWith('b'));
  assert.ok(first < lastB && firstB < lastA, 'the two calls ran at the same time');
});

test('3: two megabytes of output are bounded for the model and lose nothing on the machine', async (t) => {
  const s = await start(t, { script: (body, n) => n === 0
    ? { calls: [run('head -c 2000000 /dev/zero | tr "\\0" x; echo; echo the end')] }
    : { text: 'long' } });
  const { events, final } = await streamed(s.client, { input: 'print a lot' });
  assert.equal(final.status, 'completed');
  const [output] = ofType(final, 'shell_call_output');
  assert.ok(output.output[0].stdout.length < 9000, `the entry has ${output.output[0].stdout.length} characters`);
  assert.match(output.output[0].stdout, /the end\n$/);
  assert.equal(output.output[0].receipt.stdout_bytes, 2000009);
  for (const e of events) assert.ok(JSON.stringify(e).length < 64 * 1024, `${e.type} is too large`);
  const live = events.filter((e) => e.type === 'response.shell_call_output_content.delta');
  assert.ok(live.length > 0 && live.length <= 10000);
  assert.ok(toolTexts(s.upstream.seen[1])[0].length < 20000, 'the model sees a bounded view');
});

test('4: a time-out is told with partial output, and the next command has its own entry', async (t) => {
  const s = await start(t, { script: (body, n) => n === 0
    ? { calls: [{ args: { commands: ['echo before; sleep 60; echo never', 'echo second'], timeout_ms: 700 } }] }
    : { text: 'timed out' } });
  const { final } = await streamed(s.client, { input: 'be slow' });
  const [output] = ofType(final, 'shell_call_output');
  assert.deepEqual(output.output[0].outcome, { type: 'timeout' });
  assert.equal(output.output[0].stdout, 'before\n');
  assert.deepEqual(output.output[1].outcome, { type: 'exit', exit_code: 0 });
  assert.equal(output.output[1].stdout, 'second\n');
  assert.equal(output.output.length, 2);
});

test('5: an upstream that fails in mid turn ends as failed, for the helper and for raw iteration', async (t) => {
  const s = await start(t, { script: (body) => body.messages.at(-1).role === 'tool' ? { text: 'half an ans', cutAfterText: true } : { calls: [run('echo one')] } });
  const { final } = await streamed(s.client, { input: 'fail' });
  assert.equal(final.status, 'failed');
  assert.ok(final.error.code);
  assert.ok(final.error.message);
  const types = [];
  let last;
  for await (const e of await s.client.responses.create({ model: 'mock/mock-1', input: 'fail', tools: [shell], stream: true })) {
    types.push(e.type);
    last = e;
  }
  assert.equal(types.at(-1), 'response.failed');
  assert.equal(types.filter((x) => /^response\.(completed|failed|incomplete)$/.test(x)).length, 1);
  assert.equal(last.response.status, 'failed');
});

test('6: a long silent command is kept alive at least every 15 s and the helper does not throw', async (t) => {
  const s = await start(t, { script: (body, n) => body.messages.some((m) => m.role === 'tool') ? { text: 'awake' } : { calls: [run('sleep 17')] } });
  const helper = streamed(s.client, { input: 'sleep' });
  const response = await fetch(`${s.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${s.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'mock/mock-1', input: 'sleep', stream: true, tools: [shell] }),
  });
  let last = Date.now(), longest = 0, bytes = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    longest = Math.max(longest, Date.now() - last);
    last = Date.now();
    bytes += piece;
  }
  assert.ok(longest < 16500, `the stream was silent for ${longest} ms`);
  assert.match(bytes, /^: keepalive/m);
  assert.match(bytes, /data: \[DONE\]\n\n$/);
  assert.equal((await helper).final.status, 'completed');
});

test('12: previous_response_id reuses the container; instructions are not carried', async (t) => {
  const s = await start(t, { script: (body) => {
    const asked = body.messages.findLast((m) => m.role === 'user').content;
    const text = typeof asked === 'string' ? asked : asked[0].text;
    const done = body.messages.at(-1).role === 'tool';
    return done ? { text: 'done' } : { calls: [run(text)] };
  } });
  const one = await streamed(s.client, { input: 'echo kept > note.txt', instructions: 'SPEAK LIKE A PIRATE' });
  const two = await streamed(s.client, { input: 'cat /mnt/data/note.txt', previous_response_id: one.final.id });
  const [first] = ofType(one.final, 'shell_call');
  const [second] = ofType(two.final, 'shell_call');
  assert.equal(first.environment.container_id, second.environment.container_id);
  assert.equal(ofType(two.final, 'shell_call_output')[0].output[0].stdout, 'kept\n');
  const last = s.upstream.seen.at(-1);
  assert.ok(!JSON.stringify(last).includes('PIRATE'), 'instructions do not carry over');
  assert.ok(JSON.stringify(last).includes('note.txt'), 'the transcript does');
  assert.equal(two.final.previous_response_id, one.final.id);
});
