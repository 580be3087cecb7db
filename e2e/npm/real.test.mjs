// The main job on real data: a file goes in, a pipeline of several calls works on it, one fails and is made good, and
// the file that comes out is cited, downloaded and compared byte for byte with the same work done here.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { toFile } from 'openai';
import { shell, start } from './harness.mjs';

const csv = path.resolve('../../testdata/airports.csv');
const pipeline = "tail -n +2 airports.csv | grep -o ',[A-Z][A-Z],USA' | cut -c2-3 | sort | uniq -c | sort -k1,1nr -k2";

test('a real file is worked on, and the result is cited and downloadable', async (t) => {
  const s = await start(t);
  const bytes = await readFile(csv);
  const stream = s.client.responses.stream({
    model: 'scripted',
    tools: [shell],
    input: [{
      role: 'user',
      content: [
        { type: 'input_file', filename: 'airports.csv', file_data: `data:text/csv;base64,${bytes.toString('base64')}` },
        { type: 'input_text', text: ['Count the airports by state.', '$ wc -c < airports.csv', '$ zcat airports.csv.gz > states.txt', `? ${pipeline} > states.txt`, '$ cat states.txt'].join('\n') },
      ],
    }],
  });
  for await (const _ of stream);
  const final = await stream.finalResponse();
  assert.equal(final.status, 'completed');
  const outputs = final.output.filter((i) => i.type === 'shell_call_output').map((i) => i.output[0]);
  assert.equal(outputs.length, 4);
  assert.equal(outputs[0].stdout.trim(), String(bytes.length), 'the input arrived whole');
  assert.notEqual(outputs[1].outcome.exit_code, 0, 'the second command fails');
  assert.equal(outputs[2].outcome.exit_code, 0, 'the ? line makes it good');
  const want = execFileSync('bash', ['-c', pipeline], { cwd: path.dirname(csv), env: { PATH: process.env.PATH, LANG: 'C.UTF-8' } });
  const message = final.output.at(-1);
  const cited = message.content.flatMap((p) => p.annotations ?? []).find((a) => a.filename === 'states.txt');
  assert.equal(cited?.type, 'container_file_citation');
  const content = await s.client.containers.files.content.retrieve(cited.file_id, { container_id: cited.container_id });
  assert.deepEqual(Buffer.from(await content.arrayBuffer()), want);
  const listed = final.output.filter((i) => i.type === 'shell_call_output').flatMap((i) => i.output_files ?? []);
  assert.ok(listed.some((f) => f.path === '/mnt/data/states.txt' && f.bytes === want.length && f.file_id === cited.file_id));
});

test('containers: create, upload, list, read back, use by reference, delete', async (t) => {
  const s = await start(t);
  const container = await s.client.containers.create({ name: 'mine' });
  assert.match(container.id, /^cntr_/);
  assert.equal(container.status, 'active');
  const bytes = Buffer.from([0, 255, 10, 13, 1, 2, 3]);
  const file = await s.client.containers.files.create(container.id, { file: await toFile(bytes, 'odd name é.bin') });
  assert.equal(file.path, '/mnt/data/odd name é.bin');
  assert.equal(file.source, 'user');
  const final = await s.client.responses.create({
    model: 'scripted', input: "$ cat 'odd name é.bin' | od -An -tx1\n$ mkdir -p deep/er && echo x > deep/er/out.txt",
    tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: container.id } }],
  });
  assert.equal(final.output.find((i) => i.type === 'shell_call_output').output[0].stdout.trim(), '00 ff 0a 0d 01 02 03');
  const paths = [];
  for await (const f of s.client.containers.files.list(container.id, { limit: 1 })) paths.push(f.path);
  assert.deepEqual(paths.sort(), ['/mnt/data/deep/er/out.txt', '/mnt/data/odd name é.bin']);
  const back = await s.client.containers.files.content.retrieve(file.id, { container_id: container.id });
  assert.deepEqual(Buffer.from(await back.arrayBuffer()), bytes);
  const ids = [];
  for await (const c of s.client.containers.list()) ids.push(c.id);
  assert.ok(ids.includes(container.id));
  await s.client.containers.delete(container.id);
  await assert.rejects(s.client.containers.retrieve(container.id), { status: 404 });
  await assert.rejects(s.client.responses.create({ model: 'scripted', input: '$ true', tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: container.id } }] }), { status: 404 });
});

test('errors come as the SDK classes them, with a request id', async (t) => {
  const s = await start(t);
  const bad = (patch) => s.client.responses.create({ model: 'scripted', input: 'x', ...patch });
  await assert.rejects(bad({ model: 'nobody/none' }), (e) => e.status === 400 && e.code === 'model_not_found' && e.param === 'model' && !!e.requestID);
  await assert.rejects(bad({ tools: [{ type: 'web_search' }] }), (e) => e.status === 400 && /web_search/.test(e.message) && e.param === 'tools[0].type');
  await assert.rejects(bad({ temperature: 9 }), (e) => e.status === 400 && e.param === 'temperature');
  await assert.rejects(bad({ previous_response_id: 'resp_nope' }), (e) => e.status === 404 || e.code === 'previous_response_not_found');
  await assert.rejects(bad({ tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: 'cntr_nope' } }] }), { status: 404 });
  await assert.rejects(s.client.withOptions({ apiKey: 'wrong' }).responses.create({ model: 'scripted', input: 'x' }), { status: 401 });
});
