// features.shell.type = "passthrough_openai": the upstream runs the calls of the shell in its own containers. The upstream here
// speaks the Responses, Containers and Files shapes over HTTP and keeps files; nothing of its ids may reach a client.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { test } from 'node:test';
import OpenAI, { toFile } from 'openai';
import { binary, shell, start } from './harness.mjs';

/** A vendor. `seen` are the bodies of POST /responses; `ids` every id that it has made. */
async function vendor() {
  const v = { seen: [], ids: new Set(), containers: new Map(), made: [], fail: null };
  const mint = (prefix) => {
    const id = `${prefix}_${randomBytes(24).toString('hex')}`;
    v.ids.add(id);
    return id;
  };
  const make = (body = {}) => {
    const c = { id: mint('cntr'), object: 'container', created_at: Math.floor(Date.now() / 1000), status: 'running', name: body.name ?? 'auto',
      expires_after: body.expires_after ?? { anchor: 'last_active_at', minutes: 20 }, memory_limit: body.memory_limit ?? '1g',
      last_active_at: Math.floor(Date.now() / 1000),
      network_policy: body.network_policy ? { type: body.network_policy.type, allowed_domains: body.network_policy.allowed_domains } : { type: 'disabled' } };
    v.containers.set(c.id, { object: c, files: new Map() });
    v.made.push(body);
    return c;
  };
  const put = (c, name, bytes, source) => {
    const f = { id: mint('cfile'), object: 'container.file', created_at: 1, bytes: bytes.length, container_id: c, path: `/mnt/data/${name}`, source };
    v.containers.get(c).files.set(f.id, { object: f, bytes });
    return f;
  };
  const server = createServer(async (req, res) => {
    const pieces = [];
    for await (const piece of req) pieces.push(piece);
    const raw = Buffer.concat(pieces);
    const url = new URL(req.url, 'http://x');
    const json = (status, body) => {
      res.writeHead(status, { 'content-type': 'application/json' });
      res.end(JSON.stringify(body));
    };
    const absent = (id) => json(404, { error: { message: `Container with id '${id}' not found.`, type: 'invalid_request_error', param: null, code: null } });
    if (req.headers.authorization !== 'Bearer sk-vendor') return json(401, { error: { message: 'bad key', type: 'invalid_request_error' } });
    if (url.pathname === '/v1/models') return json(200, { object: 'list', data: [{ id: 'gpt-5.2', object: 'model', created: 1, owned_by: 'vendor' }] });
    if (url.pathname === '/v1/responses') return answer(JSON.parse(raw), res, json);
    const [, , kind, id, files, file, content] = url.pathname.split('/');
    if (kind !== 'containers') return json(404, { error: { message: `no route ${url.pathname}`, type: 'invalid_request_error' } });
    if (!id) return json(200, make(JSON.parse(raw)));
    const c = v.containers.get(id);
    if (!c) return absent(id);
    if (!files && req.method === 'DELETE') {
      v.containers.delete(id);
      return json(200, { id, object: 'container.deleted', deleted: true });
    }
    if (!files) return json(200, c.object);
    if (!file && req.method === 'POST') {
      const form = await new Response(raw, { headers: { 'content-type': req.headers['content-type'] } }).formData();
      const part = form.get('file');
      return json(200, put(id, part.name, Buffer.from(await part.arrayBuffer()), 'user'));
    }
    if (!file) {
      const all = [...c.files.values()].map((f) => f.object);
      const after = url.searchParams.get('after');
      const limit = Number(url.searchParams.get('limit') ?? 20);
      const from = after ? all.findIndex((f) => f.id === after) + 1 : 0;
      const data = all.slice(from, from + limit);
      return json(200, { object: 'list', data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more: from + limit < all.length });
    }
    const f = c.files.get(file);
    if (!f) return json(404, { error: { message: `File ${file} not found in ${id}`, type: 'invalid_request_error' } });
    if (content) {
      res.writeHead(200, { 'content-type': 'application/binary', 'content-length': f.bytes.length });
      return res.end(f.bytes);
    }
    if (req.method === 'DELETE') {
      c.files.delete(file);
      return json(200, { id: file, object: 'container.file.deleted', deleted: true });
    }
    return json(200, f.object);
  });
  function answer(body, res, json) {
    v.seen.push(body);
    if (v.fail) return json(v.fail.status, v.fail.body(body));
    const environment = body.tools?.find((t) => t.type === 'shell')?.environment;
    let id = environment?.container_id;
    if (environment?.type === 'container_reference' && !v.containers.has(id)) {
      return json(400, { error: { message: `Container ${id} is not running`, type: 'invalid_request_error', param: 'tools[0]', code: null } });
    }
    if (environment?.type === 'container_auto') id = make().id;
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    let n = 0;
    const send = (type, rest) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: n++, ...rest })}\n\n`);
    const rid = mint('resp');
    send('response.created', { response: { id: rid, object: 'response', status: 'in_progress', output: [] } });
    send('response.in_progress', { response: { id: rid, object: 'response', status: 'in_progress', output: [] } });
    const output = [];
    if (environment) {
      const call = { id: mint('sh'), type: 'shell_call', call_id: mint('call'), status: 'in_progress', caller: null, created_by: mint('resp'),
        action: { commands: [], timeout_ms: null, max_output_length: null }, environment: { type: 'container_reference', container_id: id } };
      send('response.output_item.added', { output_index: 0, item: call });
      const commands = ['wc -c /mnt/data/in.txt', 'echo 42 > /mnt/data/out.txt'];
      commands.forEach((command, k) => {
        send('response.shell_call_command.added', { output_index: 0, command_index: k, command: '' });
        send('response.shell_call_command.delta', { output_index: 0, command_index: k, delta: command, obfuscation: 'x' });
        send('response.shell_call_command.done', { output_index: 0, command_index: k, command });
      });
      const done = { ...call, status: 'completed', action: { commands, timeout_ms: 60000, max_output_length: 4096 } };
      send('response.output_item.done', { output_index: 0, item: done });
      const out = { id: mint('sho'), type: 'shell_call_output', call_id: call.call_id, status: 'in_progress', max_output_length: 4096, output: [], caller: null };
      send('response.output_item.added', { output_index: 1, item: out });
      const input = [...v.containers.get(id).files.values()].find((f) => f.object.path.endsWith('/in.txt'));
      const entries = [{ stdout: `${input?.bytes.length ?? 0}\n`, stderr: '', outcome: { type: 'exit', exit_code: 0 }, created_by: id },
        { stdout: '', stderr: 'done', outcome: { type: 'timeout' } }];
      entries.forEach((entry, k) => {
        const delta = entry.stdout ? { stdout: entry.stdout } : { stderr: entry.stderr };
        send('response.shell_call_output_content.delta', { item_id: out.id, output_index: 1, command_index: k, delta });
        send('response.shell_call_output_content.done', { item_id: out.id, output_index: 1, command_index: k, output: [entry] });
      });
      send('response.output_item.done', { output_index: 1, item: { ...out, status: 'completed', output: entries } });
      output.push(done, { ...out, status: 'completed', output: entries });
    }
    const text = environment ? 'It is in out.txt.' : 'No shell.';
    const at = output.length;
    const message = { id: mint('msg'), type: 'message', role: 'assistant', status: 'in_progress', content: [] };
    send('response.output_item.added', { output_index: at, item: message });
    send('response.content_part.added', { item_id: message.id, output_index: at, content_index: 0, part: { type: 'output_text', text: '', annotations: [] } });
    send('response.output_text.delta', { item_id: message.id, output_index: at, content_index: 0, delta: text, logprobs: [] });
    const annotations = [];
    if (environment) {
      const made = put(id, 'out.txt', Buffer.from('42\n'), 'assistant');
      annotations.push({ type: 'container_file_citation', container_id: id, file_id: made.id, filename: 'out.txt', start_index: 9, end_index: 16 });
      send('response.output_text.annotation.added', { item_id: message.id, output_index: at, content_index: 0, annotation_index: 0, annotation: annotations[0] });
    }
    send('response.output_text.done', { item_id: message.id, output_index: at, content_index: 0, text, logprobs: [] });
    const part = { type: 'output_text', text, annotations };
    send('response.content_part.done', { item_id: message.id, output_index: at, content_index: 0, part });
    const final = { ...message, status: 'completed', content: [part] };
    send('response.output_item.done', { output_index: at, item: final });
    output.push(final);
    const usage = { input_tokens: 5, input_tokens_details: { cached_tokens: 0 }, output_tokens: 7, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 12 };
    send('response.completed', { response: { id: rid, object: 'response', status: 'completed', output, usage } });
    res.end();
  }
  await new Promise((ok) => server.listen(0, '127.0.0.1', ok));
  v.url = `http://127.0.0.1:${server.address().port}/v1`;
  v.close = () => { server.closeAllConnections(); server.close(); };
  v.leaks = (value) => [...v.ids].filter((id) => (typeof value === 'string' ? value : JSON.stringify(value)).includes(id));
  return v;
}

async function passing(t) {
  const v = await vendor();
  t.after(v.close);
  const s = await start(t, { script: () => ({ text: 'chat' }), toml: `[features.shell]\ntype = "passthrough_openai"\n
[providers.vendor]\ntype = "openai"\nbase_url = "${v.url}"\napi_key = "sk-vendor"\nmodels = ["gpt-5.2"]\n` });
  const ask = (body) => s.client.responses.create({ model: 'vendor/gpt-5.2', input: 'go', tools: [shell], ...body });
  return { v, s, ask };
}

test('the vendor runs the calls, live, under ids of ours', async (t) => {
  const { v, s } = await passing(t);
  const stream = s.client.responses.stream({ model: 'vendor/gpt-5.2', input: 'go', tools: [shell] });
  const types = [];
  for await (const event of stream) {
    types.push(event.type);
    assert.deepEqual(v.leaks(event), [], `${event.type} has an id of the vendor's`);
  }
  const r = await stream.finalResponse();
  assert.equal(r.status, 'completed');
  assert.deepEqual(r.output.map((i) => i.type), ['shell_call', 'shell_call_output', 'message']);
  const [call, output, message] = r.output;
  assert.match(call.environment.container_id, /^cntr_[0-9a-z]{26}$/);
  assert.equal(r.container_id, call.environment.container_id);
  assert.equal(call.call_id, output.call_id);
  assert.deepEqual(call.action.commands, ['wc -c /mnt/data/in.txt', 'echo 42 > /mnt/data/out.txt']);
  assert.deepEqual(output.output.map((e) => e.outcome), [{ type: 'exit', exit_code: 0 }, { type: 'timeout' }]);
  assert.ok(types.includes('response.shell_call_output_content.delta') && types.includes('response.shell_call_command.delta'));
  const sent = v.seen[0];
  assert.equal(sent.store, false);
  assert.deepEqual(sent.tools, [{ type: 'shell', environment: { type: 'container_auto' } }]);

  // The citation is good, and the container is the client's to see.
  const [note] = message.content[0].annotations;
  assert.equal(note.container_id, call.environment.container_id);
  const bytes = await (await s.client.containers.files.content.retrieve(note.file_id, { container_id: note.container_id })).text();
  assert.equal(bytes, '42\n');
  const part = await fetch(`${s.url}/v1/containers/${note.container_id}/files/${note.file_id}/content`, { headers: { authorization: `Bearer ${s.key}`, range: 'bytes=1-1' } });
  assert.equal(part.status, 206);
  assert.equal(await part.text(), '2');
  const c = await s.client.containers.retrieve(note.container_id);
  assert.equal(c.status, 'active');
  assert.equal((await s.client.containers.list()).data[0].id, c.id);
  assert.deepEqual(v.leaks(c), []);
});

test('a container of the vendor\'s: made, filled, used again by a chain and by name, and ended', async (t) => {
  const { v, s, ask } = await passing(t);
  const made = await s.client.containers.create({ name: 'work', memory_limit: '4g', expires_after: { anchor: 'last_active_at', minutes: 30 },
    network_policy: { type: 'allowlist', allowed_domains: ['example.com'], domain_secrets: [{ domain: 'example.com', name: 'TOKEN', value: 'canary-1' }] } });
  assert.deepEqual(v.leaks(made), []);
  assert.ok(!JSON.stringify(made).includes('canary-1'));
  assert.equal(v.made[0].network_policy.domain_secrets[0].value, 'canary-1');
  assert.equal(v.made[0].memory_limit, '4g');
  const put = await s.client.containers.files.create(made.id, { file: await toFile(Buffer.from('twelve bytes'), 'in.txt') });
  assert.equal(put.path, '/mnt/data/in.txt');
  const uploaded = await s.client.files.create({ file: await toFile(Buffer.from('abc'), 'more.txt'), purpose: 'user_data' });
  const byID = await s.client.containers.files.create(made.id, { file_id: uploaded.id });
  assert.equal(byID.path, '/mnt/data/more.txt');

  const first = await ask({ tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: made.id } }] });
  assert.equal(first.output[0].environment.container_id, made.id);
  assert.equal(first.output[1].output[0].stdout, '12\n');
  assert.deepEqual(v.leaks(first), []);
  const theirs = v.seen[0].tools[0].environment.container_id;
  assert.ok(v.containers.has(theirs));

  const second = await ask({ previous_response_id: first.id });
  assert.equal(second.output[0].environment.container_id, made.id);
  assert.deepEqual(v.seen[1].tools[0].environment, { type: 'container_reference', container_id: theirs });
  const history = v.seen[1].input.filter((i) => i.type.startsWith('shell_call'));
  assert.deepEqual(history.map((i) => i.type), ['shell_call', 'shell_call_output']);
  assert.equal(history[0].call_id, history[1].call_id);
  assert.ok(!JSON.stringify(v.seen[1]).includes(made.id), 'the vendor gets its own ids');

  const names = [];
  for await (const f of s.client.containers.files.list(made.id, { limit: 1, order: 'asc' })) names.push(f.path);
  assert.deepEqual(names.slice(0, 2), ['/mnt/data/in.txt', '/mnt/data/more.txt']);
  const file = await s.client.containers.files.retrieve(put.id, { container_id: made.id });
  assert.equal(file.bytes, 12);
  await s.client.containers.files.delete(put.id, { container_id: made.id });
  await assert.rejects(s.client.containers.files.retrieve(put.id, { container_id: made.id }), (e) => e.status === 404 && v.leaks(e.message).length === 0);

  await s.client.containers.delete(made.id);
  assert.ok(!v.containers.has(theirs), 'it has ended at the vendor');
  await assert.rejects(s.client.containers.retrieve(made.id), (e) => e.status === 404);
  await assert.rejects(ask({ tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: made.id } }] }), (e) => e.status === 404);
  const third = await ask({ previous_response_id: second.id });
  assert.notEqual(third.output[0].environment.container_id, made.id);
  assert.match(v.seen.at(-1).instructions, /container of the earlier turns is gone/);
});

test('files of a request, and a container that the vendor has lost', async (t) => {
  const { v, s, ask } = await passing(t);
  const r = await ask({ input: [{ role: 'user', content: [{ type: 'input_text', text: 'count' },
    { type: 'input_file', filename: 'in.txt', file_data: `data:text/plain;base64,${Buffer.from('hello').toString('base64')}` }] }] });
  assert.equal(r.output[1].output[0].stdout, '5\n');
  v.containers.clear();
  const id = r.output[0].environment.container_id;
  await assert.rejects(ask({ tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: id } }] }),
    (e) => e.status === 404 && e.code === 'container_expired');
  assert.equal((await s.client.containers.retrieve(id)).status, 'expired');
});

test('another organisation sees nothing of it', async (t) => {
  const { s, ask } = await passing(t);
  const r = await ask({});
  const id = r.output[0].environment.container_id;
  const file = r.output[2].content[0].annotations[0].file_id;
  const key = execFileSync(binary, ['key', 'create', '--org', 'another', '--name', 'e2e', '--data', s.data],
    { env: { PATH: process.env.PATH, HOME: s.data }, stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim();
  const other = new OpenAI({ apiKey: key, baseURL: `${s.url}/v1`, maxRetries: 0 });
  assert.equal((await other.containers.list()).data.length, 0);
  for (const attempt of [() => other.containers.retrieve(id), () => other.containers.delete(id), () => other.containers.files.list(id),
    () => other.containers.files.retrieve(file, { container_id: id }), () => other.containers.files.content.retrieve(file, { container_id: id }),
    () => other.responses.create({ model: 'vendor/gpt-5.2', input: 'go', tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: id } }] })]) {
    await assert.rejects(attempt(), (e) => e.status === 404);
  }
  assert.equal((await s.client.containers.retrieve(id)).id, id);
});

test('any other provider is refused by name; a local shell is not', async (t) => {
  const { s } = await passing(t);
  await assert.rejects(s.client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [shell] }),
    (e) => e.status === 400 && e.code === 'shell_passthrough_unsupported_provider' && e.message.includes('"mock"'));
  const local = await s.client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [{ type: 'shell', environment: { type: 'local' } }] });
  assert.equal(local.status, 'completed');
});

test('what the vendor says of an error has none of its ids, and is not asked twice', async (t) => {
  const { v, ask } = await passing(t);
  v.fail = { status: 400, body: () => ({ error: { message: `Container cntr_${'a1'.repeat(24)} is not running`, type: 'invalid_request_error' } }) };
  await assert.rejects(ask({}), (e) => !e.message.includes('a1a1a1') && e.message.includes('is not running'));
  assert.equal(v.seen.length, 1);
});
