// Uploaded files and the archives of expired containers in a bucket of a real S3 server, which HARDSHELL_S3_SERVER names (tools/s3).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { toFile } from 'openai';
import { may, run, shell, start, toolTexts, until } from './harness.mjs';

const server = process.env.HARDSHELL_S3_SERVER;

async function bucket(t) {
  const dir = await mkdtemp(path.join(tmpdir(), 'hardshell-s3-'));
  for (const sub of ['root/bucket', 'meta']) await mkdir(path.join(dir, sub), { recursive: true });
  const probe = createServer();
  await new Promise((ok) => probe.listen(0, '127.0.0.1', ok));
  const { port } = probe.address();
  await new Promise((ok) => probe.close(ok));
  const child = spawn(server, ['--port', `127.0.0.1:${port}`, 'posix', '--sidecar', path.join(dir, 'meta'), path.join(dir, 'root')],
    { env: { ROOT_ACCESS_KEY: 'tester', ROOT_SECRET_KEY: 'only-for-tests', HOME: dir }, stdio: 'ignore' });
  t.after(async () => { child.kill('SIGKILL'); await rm(dir, { recursive: true, force: true }); });
  await until(20000, async () => { await fetch(`http://127.0.0.1:${port}/`); return true; });
  const objects = async () => (await readdir(path.join(dir, 'root/bucket'), { recursive: true, withFileTypes: true })).filter((e) => e.isFile()).length;
  return { objects, toml: `[storage.container_files]\nbackend = "s3"\n[storage.container_files.s3]\nendpoint = "http://127.0.0.1:${port}"\nbucket = "bucket"\nprefix = "hs/"\n` +
    'access_key_id = "tester"\nsecret_access_key = "only-for-tests"\npath_style = true\n[features.containers]\ndefault_idle_ttl_secs = 2\n' };
}

test('files and archives live in a bucket, and leave it', { skip: may('s3', server, 'HARDSHELL_S3_SERVER is not set') }, async (t) => {
  const s3 = await bucket(t);
  const { client, log } = await start(t, { toml: s3.toml, script: (body) => toolTexts(body).length === 0 ? { calls: [run('cat /mnt/data/made.txt 2>/dev/null || echo made >/mnt/data/made.txt')] } : { text: 'ok' } });
  const text = async (response) => Buffer.from(await response.arrayBuffer()).toString();
  const big = 'x'.repeat(20 << 20); // in parts
  const file = await client.files.create({ file: await toFile(Buffer.from(big), 'big.txt'), purpose: 'user_data' });
  assert.equal(await s3.objects(), 1);
  assert.equal(await text(await client.files.content(file.id)), big);
  await client.files.delete(file.id);
  assert.equal(await s3.objects(), 0);
  const first = await client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [shell] });
  const output = first.output.find((i) => i.type === 'shell_call_output');
  const made = output.output_files[0];
  await until(60000, async () => (await client.containers.retrieve(made.container_id)).status === 'expired' && await s3.objects() === 1, log);
  assert.equal(await text(await client.containers.files.content.retrieve(made.file_id, { container_id: made.container_id })), 'made\n');
  const again = await client.responses.create({ model: 'mock/mock-1', input: 'again', tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: made.container_id, restore: true } }] });
  assert.equal(again.output.find((i) => i.type === 'shell_call_output').output[0].stdout, 'made\n');
  assert.equal(await s3.objects(), 0);
  assert.ok(!log().includes('only-for-tests'), 'the secret is in no log');
});
