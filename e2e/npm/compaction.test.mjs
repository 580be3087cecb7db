// Check 19 of the wire reference: compact, then create with its output; a tampered blob is refused. And compaction in a
// stream, through the strictest parser there is.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run, shell, start, toolTexts } from './harness.mjs';

const words = (body) => JSON.stringify(body.messages);

test('19: a compacted conversation goes on, and a tampered one is refused', async (t) => {
  const s = await start(t, { script: (body) => (words(body).includes('Write the summary') ? { text: 'They agreed on blue.' } : { text: 'Blue it is.' }) });
  const long = 'word '.repeat(2000);
  const input = [
    { role: 'developer', content: 'Be brief.' },
    { role: 'user', content: `Which colour? ${long}` },
    { role: 'assistant', content: `Blue. ${long}` },
    ...[1, 2, 3, 4, 5, 6].map((n) => ({ role: n % 2 ? 'user' : 'assistant', content: `line ${n}` })),
  ];
  const compacted = await s.client.responses.compact({ model: 'mock/mock-1', input });
  assert.equal(compacted.object, 'response.compaction');
  assert.equal(compacted.usage.total_tokens, 15);
  const [item] = compacted.output;
  assert.equal(item.type, 'compaction');
  assert.ok(!item.encrypted_content.includes('line'));

  const ask = (output) => s.client.responses.create({ model: 'mock/mock-1', input: [...output, { role: 'user', content: 'Again?' }] });
  const next = await ask(compacted.output);
  assert.equal(next.output_text, 'Blue it is.');
  const seen = words(s.upstream.seen.at(-1));
  for (const part of ['They agreed on blue.', 'Be brief.', 'line 6', 'Again?']) assert.ok(seen.includes(part), `the model reads ${part}`);
  assert.ok(!seen.includes('word word'), 'what was summed up is not sent');

  const blob = item.encrypted_content;
  for (const changed of [blob.slice(0, -9) + (blob.at(-9) === 'A' ? 'B' : 'A') + blob.slice(-8), 'gAAAAABmadeElsewhere', blob + 'A']) {
    await assert.rejects(ask([{ ...item, encrypted_content: changed }]), (e) => e.status === 400 && e.code === 'invalid_compaction' && e.param === 'input[0].encrypted_content');
  }
  await assert.rejects(s.client.responses.compact({ input: 'hi' }), (e) => e.status === 400);
});

test('a long shell history is compacted between the turns of a stream', async (t) => {
  const turns = 5;
  const s = await start(t, {
    toml: '[features.responses.compaction]\nenabled = true\nkeep_recent_items = 2\n',
    script: (body, n) => {
      const usage = { prompt_tokens: Math.round(JSON.stringify(body).length / 4), completion_tokens: 5, total_tokens: 0 };
      return n < turns ? { calls: [run(`seq ${n}00000 ${n}00600`)], usage } : { text: 'done', usage };
    },
  });
  const stream = s.client.responses.stream({ model: 'mock/mock-1', tools: [shell], input: 'count',
    context_management: [{ type: 'compaction', compact_threshold: 3500 }] });
  const types = [];
  for await (const event of stream) types.push(event.type);
  const final = await stream.finalResponse();
  assert.equal(final.status, 'completed');
  assert.ok(types.includes('response.compaction.compacting'));
  assert.ok(final.output.some((item) => item.type === 'compaction'));
  const last = s.upstream.seen.at(-1);
  assert.ok(JSON.stringify(last).length / 4 < 4200, `${JSON.stringify(last).length / 4} tokens`);
  assert.equal(toolTexts(last).length, last.messages.flatMap((m) => m.tool_calls ?? []).length, 'each call has its output');
  assert.ok(toolTexts(last).at(-1).includes(`${turns - 1}00600`), 'the latest output is there');

  // The next turn chains on it and does not begin it again.
  const again = await s.client.responses.create({ model: 'mock/mock-1', input: 'and?', previous_response_id: final.id,
    context_management: [{ type: 'compaction', compact_threshold: 3500 }] });
  assert.ok(!again.output.some((item) => item.type === 'compaction'));
  assert.ok(words(s.upstream.seen.at(-1)).includes('count'), 'what the user wanted is still there');
});

test('what of a request is ignored stands in a header', async (t) => {
  const s = await start(t, { script: () => ({ text: 'hi' }) });
  const { response } = await s.client.responses.create({ model: 'mock/mock-1', input: 'hi', context_management: [{ type: 'compaction', compact_threshold: 1000 }] }).withResponse();
  assert.match(response.headers.get('x-hardshell-warning'), /context_management is ignored/);
});
