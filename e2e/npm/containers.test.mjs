// Checks 15, 16 (its container part) and 17 of the wire reference, and what hardshell adds: restore, limits, surroundings.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toFile } from 'openai';
import { run, shell, start, toolTexts, until } from './harness.mjs';

const bytes = async (response) => Buffer.from(await response.arrayBuffer()).toString();
const refused = (status, code) => (e) => e.status === status && e.code === code;
const ofType = (response, type) => response.output.filter((item) => item.type === type);

test('15: files are uploaded with an expiry, listed page by page, read, deleted and gone', async (t) => {
  const { client } = await start(t);
  const made = [];
  for (let i = 0; i < 5; i++) {
    made.push(await client.files.create({ file: await toFile(Buffer.from(`row ${i}\n`), `data-${i}.csv`), purpose: 'user_data', expires_after: { anchor: 'created_at', seconds: 3600 } }));
  }
  assert.equal(made[0].object, 'file');
  assert.equal(made[0].bytes, 6);
  assert.equal(made[0].filename, 'data-0.csv');
  assert.equal(made[0].expires_at, made[0].created_at + 3600);
  const waited = await client.files.waitForProcessing(made[0].id, { pollInterval: 10, maxWait: 5000 });
  assert.equal(waited.status, 'processed');
  const listed = [];
  for await (const f of client.files.list({ limit: 2, order: 'asc' })) listed.push(f.id);
  assert.deepEqual(listed, made.map((f) => f.id));
  const newest = [];
  for await (const f of client.files.list({ limit: 2 })) newest.push(f.id);
  assert.deepEqual(newest, made.map((f) => f.id).reverse());
  assert.deepEqual((await client.files.list({ purpose: 'batch' })).data, []);
  assert.equal(await bytes(await client.files.content(made[3].id)), 'row 3\n');
  const large = Buffer.alloc(70 << 20, 'x'); // more than any other request may have
  const big = await client.files.create({ file: await toFile(large, 'big.bin'), purpose: 'user_data' });
  assert.equal(big.bytes, large.length);
  assert.equal((await (await client.files.content(big.id)).arrayBuffer()).byteLength, large.length);
  assert.deepEqual(await client.files.delete(made[3].id), { id: made[3].id, object: 'file', deleted: true });
  await assert.rejects(client.files.retrieve(made[3].id), refused(404, 'file_not_found'));
  await assert.rejects(client.files.content(made[3].id), refused(404, 'file_not_found'));
  await assert.rejects(client.files.create({ file: await toFile(Buffer.from('x'), 'x'), purpose: 'spying' }), (e) => e.status === 400 && e.param === 'purpose');
});

test('16: containers are made, listed, deleted, and a reference to a deleted one is a clear error', async (t) => {
  const { client } = await start(t, { script: (body, n) => n === 0 ? { calls: [run('echo here')] } : { text: 'ok' } });
  const made = [];
  for (const name of ['one', 'two', 'one']) {
    made.push(await client.containers.create({ name, memory_limit: '1g', expires_after: { anchor: 'last_active_at', minutes: 5 } }));
  }
  assert.equal(made[0].object, 'container');
  assert.equal(made[0].status, 'active');
  assert.equal(made[0].memory_limit, '1g');
  assert.deepEqual(made[0].expires_after, { anchor: 'last_active_at', minutes: 5 });
  assert.equal(made[0].expires_at, made[0].last_active_at + 300);
  assert.equal(made[0].idle_ttl_secs, 300);
  assert.equal(made[0].network_policy.type, 'disabled');
  assert.equal(made[0].disk.enforced_by, 'watchdog');
  const ids = [];
  for await (const c of client.containers.list({ limit: 2 })) ids.push(c.id);
  assert.deepEqual(ids, made.map((c) => c.id).reverse(), 'newest first, over two pages');
  assert.equal((await client.containers.list({ name: 'two' })).data.length, 1);
  const response = await client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: made[1].id } }] });
  assert.equal(ofType(response, 'shell_call_output')[0].output[0].stdout, 'here\n');
  assert.ok((await client.containers.retrieve(made[1].id)).last_active_at >= made[1].last_active_at);
  const file = await client.containers.files.create(made[1].id, { file: await toFile(Buffer.from('x'), 'x.txt') });
  await client.containers.delete(made[1].id);
  await assert.rejects(client.containers.retrieve(made[1].id), refused(404, 'container_not_found'));
  await assert.rejects(client.containers.files.content.retrieve(file.id, { container_id: made[1].id }), refused(404, 'container_not_found'));
  await assert.rejects(client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: made[1].id } }] }),
    (e) => e.status === 404 && e.code === 'container_not_found' && e.param === 'tools[0].environment.container_id');
  for (const [bad, code] of [[{ memory_limit: 'lots' }, 'invalid_memory_limit'], [{ expires_after: { anchor: 'last_active_at', minutes: 99999999 } }, 'expires_after_exceeds_cap'],
    [{ name: 'x'.repeat(256) }, 'name_too_long'], [{ file_ids: ['file_nope'] }, 'invalid_file_id']]) {
    await assert.rejects(client.containers.create({ name: 'bad', ...bad }), refused(400, code));
  }
});

test('17: files go in by form and by id, keep their paths, and a citation leads to its bytes', async (t) => {
  const { client, upstream } = await start(t, { script: (body, n) => n === 0
    ? { calls: [run('mkdir -p out/deep && tr a-z A-Z <in/data.csv >out/deep/upper.csv && cat by-id.csv && ls -1 /mnt/data')] } : { text: 'See out/deep/upper.csv for the result.' } });
  const uploaded = await client.files.create({ file: await toFile(Buffer.from('by,id\n'), 'by-id.csv'), purpose: 'user_data' });
  const container = await client.containers.create({ name: 'work', file_ids: [uploaded.id] });
  // The SDK cuts a file's name to its last part; the extension `path` names the place.
  const put = async (text, where) => client.containers.files.create(container.id, { path: where, file: await toFile(Buffer.from(text), 'data.csv') });
  const formed = await put('alpha,beta\n', 'in/data.csv');
  assert.equal(formed.path, '/mnt/data/in/data.csv');
  assert.equal(formed.source, 'user');
  const second = await client.containers.files.create(container.id, { file_id: uploaded.id });
  assert.equal(second.path, '/mnt/data/by-id.csv');
  const response = await client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: container.id } }] });
  const [output] = ofType(response, 'shell_call_output');
  assert.equal(output.output[0].stdout, 'by,id\nby-id.csv\nin\nout\n');
  assert.ok(toolTexts(upstream.seen[1])[0].includes('by,id'));
  const cited = response.output.at(-1).content[0].annotations.find((a) => a.type === 'container_file_citation');
  assert.equal(cited.filename, 'upper.csv');
  assert.equal(await bytes(await client.containers.files.content.retrieve(cited.file_id, { container_id: cited.container_id })), 'ALPHA,BETA\n');
  const files = [];
  for await (const f of client.containers.files.list(container.id, { limit: 1, order: 'asc' })) files.push([f.path, f.source]);
  assert.deepEqual(files.sort(), [['/mnt/data/by-id.csv', 'user'], ['/mnt/data/in/data.csv', 'user'], ['/mnt/data/out/deep/upper.csv', 'assistant']]);
  await client.containers.files.delete(formed.id, { container_id: container.id });
  await assert.rejects(client.containers.files.retrieve(formed.id, { container_id: container.id }), refused(404, 'file_not_found'));
  for (const name of ['../up.txt', '/etc/passwd', 'a/../../b']) {
    await assert.rejects(put('x', name), refused(400, 'invalid_path'));
  }
});

test('an expired container names what survives, and is restored under its id', async (t) => {
  const { client } = await start(t, { toml: '[features.containers]\ndefault_idle_ttl_secs = 2\n', script: (body) => toolTexts(body).length === 0
    ? { calls: [run('ls -l /mnt/data; cat /mnt/data/kept.txt 2>/dev/null || { umask 077; echo kept >/mnt/data/kept.txt; ln -s kept.txt /mnt/data/link; chmod 640 /mnt/data/kept.txt; }')] } : { text: 'done' } });
  const first = await client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [shell] });
  const id = ofType(first, 'shell_call')[0].environment.container_id;
  const [file] = ofType(first, 'shell_call_output')[0].output_files.filter((f) => f.filename === 'kept.txt');
  await until(30000, async () => (await client.containers.retrieve(id)).status === 'expired');
  const reference = (more) => client.responses.create({ model: 'mock/mock-1', input: 'again', tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: id, ...more } }] });
  await assert.rejects(reference({}), (e) => e.status === 404 && e.code === 'container_expired' && e.error.surviving.restore === true &&
    e.error.surviving.files.some((f) => f.path === '/mnt/data/kept.txt' && f.id === file.file_id));
  assert.equal(await bytes(await client.containers.files.content.retrieve(file.file_id, { container_id: id })), 'kept\n');
  const again = await reference({ restore: true });
  const [call] = ofType(again, 'shell_call');
  assert.equal(call.environment.container_id, id);
  const { stdout } = ofType(again, 'shell_call_output')[0].output[0];
  assert.match(stdout, /-rw-r----- .* kept\.txt/);
  assert.match(stdout, /link -> kept\.txt/);
  assert.match(stdout, /kept\n$/);
  assert.equal((await client.containers.files.retrieve(file.file_id, { container_id: id })).path, '/mnt/data/kept.txt');
});

test('a command that fills the disk is stopped by name, and nobody else is', async (t) => {
  const { client } = await start(t, { toml: '[features.containers]\ndisk_mb = 32\n', script: (body, n) => n === 0
    ? { calls: [run('while :; do head -c 200000 /dev/zero; sleep 0.01; done >big')] } : n === 1 ? { calls: [run('rm big; echo room again')] } : { text: 'done' } });
  const response = await client.responses.create({ model: 'mock/mock-1', input: 'fill it', tools: [shell] });
  const [filled, freed] = ofType(response, 'shell_call_output');
  assert.equal(filled.output[0].receipt.reason, 'disk_limit');
  assert.equal(filled.output[0].outcome.exit_code, 137);
  assert.match(filled.output[0].stderr, /32\.0 MiB are allowed/);
  assert.equal(freed.output[0].stdout, 'room again\n');
});

test('a call has a folder, variables and an input of its own, and a cut output is readable inside', async (t) => {
  const { client, upstream } = await start(t, { script: (body, n) => [
    { calls: [{ args: { commands: ['pwd; cat; echo $WHO'], working_directory: '/tmp', env: { WHO: 'me' }, stdin: 'typed\n' } }] },
    { calls: [run('for i in $(seq 20000); do echo line $i is dull; [ $i = 7777 ] && echo ERROR: the needle; done; true')] },
    { calls: [run(`sed -n 7778p ${(toolTexts(body).at(-1) ?? '').match(/\/mnt\/output\/\S+\/stdout/)?.[0]}`)] },
    { text: 'done' }][n] });
  const response = await client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [shell] });
  const outputs = ofType(response, 'shell_call_output').map((o) => o.output[0]);
  assert.equal(outputs[0].stdout, '/tmp\ntyped\nme\n');
  assert.ok(outputs[1].stdout.includes('ERROR: the needle'), 'the line that matters is in the view');
  assert.ok(outputs[1].stdout.length < 8300);
  assert.equal(outputs[2].stdout, 'ERROR: the needle\n');
  assert.ok(upstream.seen[2].messages.length > 0);
});

test('an uploaded file is an input_file by its id, whatever its size', async (t) => {
  const { client } = await start(t, { script: (body, n) => n === 0 ? { calls: [run('wc -c <big.csv; head -c 4 big.csv')] } : { text: 'ok' } });
  const text = 'a,b\n'.repeat(3 << 20);
  const file = await client.files.create({ file: await toFile(Buffer.from(text), 'big.csv'), purpose: 'user_data' });
  const response = await client.responses.create({ model: 'mock/mock-1', tools: [shell],
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'count' }, { type: 'input_file', file_id: file.id }] }] });
  assert.equal(ofType(response, 'shell_call_output')[0].output[0].stdout, `${text.length}\na,b\n`);
  await client.files.delete(file.id);
  await assert.rejects(client.responses.create({ model: 'mock/mock-1', tools: [shell], input: [{ role: 'user', content: [{ type: 'input_file', file_id: file.id }] }] }),
    refused(400, 'invalid_input_file_id'));
});
