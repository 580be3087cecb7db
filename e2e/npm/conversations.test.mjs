// State: conversations, input items, counts, references and branches through the SDK; checks 13, 14, 19 and 23 of the wire reference
// where they are about what is kept.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotFoundError, BadRequestError } from 'openai';
import { run, shell, start, until } from './harness.mjs';

const said = (body) => body.messages.filter((m) => m.role !== 'system').map((m) => (typeof m.content === 'string' ? m.content : (m.content ?? []).map((c) => c.text).join('')));
const echo = (body) => ({ text: `I have read ${said(body).length} messages.` });

test('conversations: made, read, changed and deleted; items added, paged through in both orders, read and taken out', async (t) => {
  const s = await start(t, { script: echo });
  const c = s.client.conversations;
  const talk = await c.create({ items: [{ role: 'user', content: 'one' }], metadata: { topic: 'tea' } });
  assert.match(talk.id, /^conv_/);
  assert.equal(talk.object, 'conversation');
  assert.deepEqual(talk.metadata, { topic: 'tea' });
  assert.deepEqual(await c.retrieve(talk.id), talk);
  assert.deepEqual((await c.update(talk.id, { metadata: { topic: 'coffee' } })).metadata, { topic: 'coffee' });
  const added = await c.items.create(talk.id, { items: ['two', 'three', 'four'].map((content) => ({ role: 'user', content })), include: ['message.input_image.image_url'] });
  assert.equal(added.object, 'list');
  assert.equal(added.data.length, 3);
  const texts = async (query) => {
    const all = [];
    for await (const item of c.items.list(talk.id, query)) all.push(item.content[0].text);
    return all;
  };
  assert.deepEqual(await texts({ limit: 2, order: 'asc' }), ['one', 'two', 'three', 'four']);
  assert.deepEqual(await texts({ limit: 3 }), ['four', 'three', 'two', 'one']);
  const two = await c.items.retrieve(added.data[0].id, { conversation_id: talk.id });
  assert.equal(two.content[0].text, 'two');
  assert.equal(two.status, 'completed');
  assert.equal((await c.items.delete(two.id, { conversation_id: talk.id })).id, talk.id);
  await assert.rejects(c.items.retrieve(two.id, { conversation_id: talk.id }), NotFoundError);
  assert.deepEqual(await texts({ order: 'asc' }), ['one', 'three', 'four']);
  const empty = await c.create();
  assert.deepEqual(empty.metadata, {});
  const gone = await c.delete(talk.id);
  assert.deepEqual(gone, { id: talk.id, object: 'conversation.deleted', deleted: true });
  await assert.rejects(c.retrieve(talk.id), (e) => e instanceof NotFoundError && e.code === 'conversation_not_found');
  await assert.rejects(s.client.responses.create({ model: 'mock/mock-1', input: 'x', conversation: talk.id }), NotFoundError);
});

test('a response continues a conversation, in its container, and is added to it', async (t) => {
  const s = await start(t, {
    script: (body) => {
      const last = body.messages.at(-1);
      if (last.role === 'tool') return { text: `Seen: ${JSON.parse(last.content.split('\n')[0]).stdout}` };
      return said(body).at(-1) === 'write' ? { calls: [run('echo tea > cup; cat cup')] } : { calls: [run('cat cup')] };
    },
  });
  const talk = await s.client.conversations.create();
  const first = await s.client.responses.create({ model: 'mock/mock-1', input: 'write', conversation: talk.id, tools: [shell] });
  assert.equal(first.status, 'completed');
  assert.deepEqual(first.conversation, { id: talk.id });
  const second = await s.client.responses.create({ model: 'mock/mock-1', input: 'read', conversation: { id: talk.id }, tools: [shell] });
  assert.equal(second.output_text, 'Seen: tea\n', 'the conversation keeps its container');
  const items = [];
  for await (const item of s.client.conversations.items.list(talk.id, { limit: 3, order: 'asc' })) items.push(item);
  assert.deepEqual(items.map((i) => i.type), ['message', 'shell_call', 'shell_call_output', 'message', 'message', 'shell_call', 'shell_call_output', 'message']);
  assert.equal(new Set(items.map((i) => i.id)).size, items.length);
  assert.deepEqual(items.slice(1, 4).map((i) => i.id), first.output.map((i) => i.id));
  const asked = [];
  for await (const item of s.client.responses.inputItems.list(second.id, { order: 'asc', include: ['reasoning.encrypted_content'] })) asked.push(item.content[0].text);
  assert.deepEqual(asked, ['read'], 'the input of a response is its own turn');
  await s.client.responses.delete(first.id);
  await s.client.conversations.delete(talk.id);
  assert.equal((await s.client.responses.retrieve(second.id)).id, second.id, 'deleting a conversation leaves its responses');
});

test('a conversation under a running response is locked; a kill of the server adds the response once', async (t) => {
  const s = await start(t, {
    script: (body) => (body.messages.some((m) => m.role === 'tool') ? { text: 'Done.' } : { calls: [run('for i in 1 2 3 4 5 6 7 8; do echo n$i; sleep 0.25; done')] }),
  });
  const talk = await s.client.conversations.create({ items: [{ role: 'user', content: 'before' }] });
  const ask = { model: 'mock/mock-1', conversation: talk.id, tools: [shell] };
  const begun = await s.client.responses.create({ ...ask, input: 'count', background: true });
  await until(20000, async () => (await s.client.responses.retrieve(begun.id)).output.some((i) => i.type === 'shell_call_output'), s.log);
  const locked = (e) => e instanceof BadRequestError && e.code === 'conversation_locked';
  await assert.rejects(s.client.responses.create({ ...ask, input: 'me too' }), locked);
  await assert.rejects(s.client.conversations.items.create(talk.id, { items: [{ role: 'user', content: 'me too' }] }), locked);
  await s.restart('SIGKILL');
  const ended = await until(60000, async () => {
    const r = await s.client.responses.retrieve(begun.id);
    return r.status === 'completed' && r;
  }, s.log);
  const items = [];
  for await (const item of s.client.conversations.items.list(talk.id, { order: 'asc' })) items.push(item);
  assert.deepEqual(items.slice(2).map((i) => i.id), ended.output.map((i) => i.id));
  assert.deepEqual(items.slice(0, 2).map((i) => i.content[0].text), ['before', 'count']);
  const next = await s.client.responses.create({ ...ask, tools: [], input: 'and now?' });
  assert.equal(next.status, 'completed');
});

test('references, branches and what is not stored', async (t) => {
  const s = await start(t, { script: (body) => ({ text: said(body).join('|') }) });
  const ask = (body) => s.client.responses.create({ model: 'mock/mock-1', ...body });
  const root = await ask({ input: 'root' });
  const left = await ask({ input: 'left', previous_response_id: root.id });
  const right = await ask({ input: 'right', previous_response_id: root.id });
  assert.equal(left.output_text, 'root|root|left');
  assert.equal(right.output_text, 'root|root|right', 'a branch does not see the other');
  const referred = await ask({ input: [{ type: 'item_reference', id: root.output[0].id }, { role: 'user', content: 'and?' }, { id: right.output[0].id }, { role: 'user', content: 'so?' }] });
  assert.equal(referred.output_text, 'root|and?|root|root|right|so?');
  const [item] = (await s.client.responses.inputItems.list(referred.id, { order: 'asc', limit: 1 })).data;
  assert.equal(item.id, root.output[0].id, 'the reference was stored as the item');
  const unkept = await ask({ input: 'secret', store: false });
  await assert.rejects(s.client.responses.retrieve(unkept.id), NotFoundError);
  await assert.rejects(ask({ input: [{ type: 'item_reference', id: unkept.output[0].id }, { role: 'user', content: 'x' }] }),
    (e) => e instanceof NotFoundError && e.code === 'item_not_found');
  await assert.rejects(ask({ input: 'x', previous_response_id: unkept.id }), (e) => e.status === 404 && e.code === 'previous_response_not_found');
  const talk = await s.client.conversations.create();
  await assert.rejects(ask({ input: 'x', conversation: talk.id, previous_response_id: root.id }), BadRequestError);
  await assert.rejects(ask({ input: 'x', conversation: talk.id, store: false }), BadRequestError);
});

test('13, 14: a local shell in a conversation: its output continues it; one of an unknown call is refused', async (t) => {
  const s = await start(t, { script: (body) => (body.messages.some((m) => m.role === 'tool') ? { text: 'Thanks.' } : { calls: [run('uname')] }) });
  const talk = await s.client.conversations.create();
  const ask = (input) => s.client.responses.create({ model: 'mock/mock-1', input, conversation: talk.id, tools: [{ type: 'shell', environment: { type: 'local' } }] });
  const first = await ask('which system?');
  const call = first.output.find((i) => i.type === 'shell_call');
  assert.ok(call && !first.output.some((i) => i.type === 'shell_call_output'));
  const answer = (call_id) => [{ type: 'shell_call_output', call_id, output: [{ stdout: 'Linux\n', stderr: '', outcome: { type: 'exit', exit_code: 0 } }] }];
  await assert.rejects(ask(answer('call_unknown')), BadRequestError);
  await assert.rejects(ask('never mind'), BadRequestError, 'the call waits for its output');
  const second = await ask(answer(call.call_id));
  assert.equal(second.output_text, 'Thanks.');
});

test('input tokens are counted with what a request continues', async (t) => {
  const s = await start(t, { script: echo });
  const count = async (body) => (await s.client.responses.inputTokens.count({ model: 'mock/mock-1', ...body })).input_tokens;
  const small = await count({ input: 'hello' });
  assert.ok(small > 0 && small < 50, small);
  const talk = await s.client.conversations.create({ items: [{ role: 'user', content: 'word '.repeat(2000) }] });
  const large = await count({ input: 'hello', conversation: talk.id });
  assert.ok(large > 1500 && large < 4000, large);
  assert.equal(s.upstream.seen.length, 0, 'nobody was asked');
});

test('truncation: what is too long for the model fails, or loses its beginning', async (t) => {
  const s = await start(t, {
    script: (body) => (body.messages.length > 3
      ? { status: 400, body: { error: { message: 'This is too long.', type: 'invalid_request_error', code: 'context_length_exceeded' } } }
      : { text: said(body).join('|') }),
  });
  const talk = await s.client.conversations.create({ items: ['one', 'two', 'three'].flatMap((content) => [{ role: 'user', content }, { role: 'assistant', content: 'ok' }]) });
  const ask = (truncation) => s.client.responses.create({ model: 'mock/mock-1', input: 'now', conversation: talk.id, truncation });
  await assert.rejects(ask('disabled'), (e) => e.code === 'context_length_exceeded');
  const cut = await ask('auto');
  assert.equal(cut.output_text, 'now');
  assert.equal(cut.truncation, 'auto');
  const items = [];
  for await (const item of s.client.conversations.items.list(talk.id)) items.push(item);
  assert.equal(items.length, 8, 'the conversation keeps all of it, and nothing of the request that failed');
});
