// Checks 7 to 11 of the wire reference: responses that go on without their client, and without their server.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { run, shell, start, until } from './harness.mjs';

const turn = (body) => (body.messages.some((m) => m.role === 'tool') ? { text: 'It counted to five.' }
  : { text: 'Counting. ', calls: [run('for i in 1 2 3 4 5; do echo n$i; sleep 0.1; done')] });
const ask = { model: 'mock/mock-1', tools: [shell], input: 'count' };

/** What two runs of one script have in common. */
const shape = (response) => response.output.map((item) => ({
  type: item.type, status: item.status, text: item.content?.[0]?.text, commands: item.action?.commands,
  output: item.output?.map((o) => ({ stdout: o.stdout, stderr: o.stderr, outcome: o.outcome })),
}));

const ended = (s, id) => until(30000, async () => {
  const r = await s.client.responses.retrieve(id);
  return !['queued', 'in_progress'].includes(r.status) && r;
}, s.log);

async function raw(s, id, after) {
  const events = [];
  const stream = await s.client.responses.retrieve(id, { stream: true, ...(after === undefined ? {} : { starting_after: after }) });
  for await (const e of stream) events.push(e);
  return events;
}

test('7: a background response is polled to its end, with the usage and output of a foreground run', async (t) => {
  const s = await start(t, { script: turn });
  const begun = await s.client.responses.create({ ...ask, background: true });
  assert.ok(['queued', 'in_progress'].includes(begun.status), begun.status);
  assert.equal(begun.background, true);
  const back = await ended(s, begun.id);
  assert.equal(back.status, 'completed');
  const fore = await s.client.responses.create(ask);
  assert.deepEqual(shape(back), shape(fore));
  assert.deepEqual(back.usage, fore.usage);
});

test('8: a background stream that is cut behind event N goes on with N+1, without a gap and without a repeat', async (t) => {
  const s = await start(t, { script: turn });
  const seen = [];
  const stream = await s.client.responses.create({ ...ask, background: true, stream: true });
  let id;
  for await (const e of stream) {
    id ??= e.response?.id;
    seen.push(e);
    if (e.type === 'response.shell_call_output_content.delta') break; // the command is running
  }
  stream.controller.abort();
  const last = seen.at(-1).sequence_number;
  const rest = await raw(s, id, last);
  assert.equal(rest[0].sequence_number, last + 1);
  const all = [...seen, ...rest];
  all.forEach((e, i) => assert.equal(e.sequence_number, i));
  assert.equal(all.at(-1).type, 'response.completed');
  assert.deepEqual(await raw(s, id), all, 'a replay from the start is the same');
  const stdout = all.filter((e) => e.type === 'response.shell_call_output_content.delta').map((e) => e.delta.stdout ?? '').join('');
  assert.equal(stdout, 'n1\nn2\nn3\nn4\nn5\n');
});

for (const signal of ['SIGTERM', 'SIGKILL']) {
  test(`9: the helper replays a response from the start after ${signal}, also one whose command was running`, async (t) => {
    const s = await start(t, { script: turn });
    const done = await s.client.responses.create({ ...ask, background: true });
    const first = await ended(s, done.id);
    const running = await s.client.responses.create({ ...ask, background: true });
    await until(20000, async () => (await raw2(s, running.id)).some((e) => e.type === 'response.shell_call_output_content.delta'), s.log);
    await s.restart(signal);
    for (const id of [done.id, running.id]) {
      const stream = s.client.responses.stream({ response_id: id });
      const events = [];
      for await (const e of stream) events.push(e);
      const final = await stream.finalResponse();
      assert.equal(final.status, 'completed');
      assert.deepEqual(shape(final), shape(first), 'nothing of it was lost, and nothing ran twice');
      events.forEach((e, i) => assert.equal(e.sequence_number, i));
    }
  });
}

/** The events that there are by now, of a response that may be running. */
async function raw2(s, id) {
  const events = [];
  const stream = await s.client.responses.retrieve(id, { stream: true });
  const late = setTimeout(() => stream.controller.abort(), 300);
  try {
    for await (const e of stream) events.push(e);
  } catch { /* aborted */ }
  clearTimeout(late);
  return events;
}

/** Command lines of this machine's processes that begin with a text. */
async function running(text) {
  const found = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (line.replaceAll('\0', ' ').startsWith(text)) found.push(line);
  }
  return found;
}

test('10: cancel while a command runs: cancelled, its processes gone, and retrieve agrees', async (t) => {
  const s = await start(t, { script: (body) => (body.messages.some((m) => m.role === 'tool') ? { text: 'never' }
    : { calls: [run('echo pid $$; (setsid sleep 300771 & sleep 300772); echo late > late')] }) });
  const { id } = await s.client.responses.create({ ...ask, background: true });
  await until(20000, async () => (await raw2(s, id)).some((e) => e.delta?.stdout?.includes('pid')), s.log);
  assert.equal((await running('sleep 30077')).length, 2);
  const cancelled = await s.client.responses.cancel(id);
  await until(2000, async () => (await running('sleep 30077')).length === 0, () => 'a process is left');
  assert.equal(cancelled.status, 'cancelled');
  assert.equal((await s.client.responses.retrieve(id)).status, 'cancelled');
  assert.equal((await s.client.responses.cancel(id)).status, 'cancelled', 'asked for again it is the same');
  const events = await raw(s, id);
  assert.equal(events.at(-1).type, 'response.incomplete');
  assert.equal(events.at(-1).response.status, 'cancelled');
  assert.equal(events.filter((e) => ['response.completed', 'response.incomplete', 'response.failed'].includes(e.type)).length, 1);
  const container = cancelled.output.find((i) => i.type === 'shell_call').environment.container_id;
  const files = await s.client.containers.files.list(container);
  assert.ok(!files.data.some((f) => f.path.endsWith('/late')), 'the command did not go on');
});

test('11: cancel of a foreground response is a 400 in the envelope, of an unknown id a 404', async (t) => {
  const s = await start(t, { script: () => ({ text: 'hello' }) });
  const fore = await s.client.responses.create({ model: 'mock/mock-1', input: 'hello' });
  await assert.rejects(s.client.responses.cancel(fore.id), (e) => e.status === 400 && e.type === 'invalid_request_error' && !!e.requestID);
  await assert.rejects(s.client.responses.cancel('resp_01kagqd7w1f4cqk0p9f8c8k8vh'), (e) => e.status === 404 && e.code === 'response_not_found');
});
