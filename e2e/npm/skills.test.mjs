// Check 18 of the wire reference: skills by directory upload and by zip, the default version, and what a container sees.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateRawSync, crc32 } from 'node:zlib';
import { toFile } from 'openai';
import { start } from './harness.mjs';

const md = (name, about) => `---\nname: ${name}\ndescription: ${about}\n---\n# How\nRun bin/say.\n`;

/** A zip of texts by name. */
function zip(files) {
  const parts = [], central = [];
  let at = 0;
  for (const [name, text] of Object.entries(files)) {
    const raw = Buffer.from(text), data = deflateRawSync(raw), title = Buffer.from(name);
    const head = Buffer.alloc(30);
    head.writeUInt32LE(0x04034b50, 0); head.writeUInt16LE(20, 4); head.writeUInt16LE(8, 8);
    head.writeUInt32LE(crc32(raw), 14); head.writeUInt32LE(data.length, 18); head.writeUInt32LE(raw.length, 22); head.writeUInt16LE(title.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0); entry.writeUInt16LE(0x0314, 4); entry.writeUInt16LE(20, 6); entry.writeUInt16LE(8, 10);
    head.copy(entry, 16, 14, 28); // checksum, sizes, length of the name
    entry.writeUInt32LE((0o100755 << 16) >>> 0, 38); entry.writeUInt32LE(at, 42);
    parts.push(head, title, data);
    central.push(entry, title);
    at += head.length + title.length + data.length;
  }
  const directory = Buffer.concat(central), end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0); end.writeUInt16LE(Object.keys(files).length, 8); end.writeUInt16LE(Object.keys(files).length, 10);
  end.writeUInt32LE(directory.length, 12); end.writeUInt32LE(at, 16);
  return Buffer.concat([...parts, directory, end]);
}

test('18: skills come by directory and by zip, and a container has the version that is the default', async (t) => {
  const s = await start(t, { script: (body) => (body.messages.some((m) => m.role === 'tool') ? { text: 'said' }
    : { calls: [{ args: { commands: ['/skills/greeting/bin/say; head -2 /skills/greeting/SKILL.md; echo no > /skills/greeting/SKILL.md'] } }] }) });
  const made = await s.client.skills.create({ files: [
    await toFile(Buffer.from(md('greeting', 'says hello')), 'greeting/SKILL.md'),
    await toFile(Buffer.from('#!/bin/sh\necho one\n'), 'greeting/bin/say'),
  ] });
  assert.deepEqual([made.object, made.name, made.description, made.default_version, made.latest_version], ['skill', 'greeting', 'says hello', '1', '1']);
  const two = await s.client.skills.versions.create(made.id, { files: await toFile(
    zip({ 'SKILL.md': md('greeting', 'says more'), 'bin/say': '#!/bin/sh\necho two\n' }), 'greeting.zip') });
  assert.deepEqual([two.object, two.skill_id, two.version], ['skill.version', made.id, '2']);

  const ask = (skill) => s.client.responses.create({ model: 'mock/mock-1', input: 'greet',
    tools: [{ type: 'shell', environment: { type: 'container_auto', skills: [skill] } }] });
  const said = (response) => response.output.find((i) => i.type === 'shell_call_output').output[0];
  const reference = { type: 'skill_reference', skill_id: made.id };
  const first = said(await ask(reference));
  assert.match(first.stdout, /^one\n/);
  assert.match(first.stderr, /Read-only file system/);
  assert.match(s.upstream.seen[0].tools[0].function.description, /greeting \(\/skills\/greeting\/SKILL.md\): says hello/);
  assert.match(said(await ask({ ...reference, version: 'latest' })).stdout, /^two\n/);
  const switched = await s.client.skills.update(made.id, { default_version: '2' });
  assert.equal(switched.default_version, '2');
  assert.match(said(await ask(reference)).stdout, /^two\n/, 'the next container has the new default');
  const inline = await ask({ type: 'inline', name: 'greeting', description: 'says so', source: { type: 'base64', media_type: 'application/zip',
    data: zip({ 'greeting/SKILL.md': md('x', 'y'), 'greeting/bin/say': '#!/bin/sh\necho inline\n' }).toString('base64') } });
  assert.match(said(inline).stdout, /^inline\n/);

  const versions = [];
  for await (const v of s.client.skills.versions.list(made.id, { limit: 1 })) versions.push(v.version);
  assert.deepEqual(versions, ['2', '1']);
  const content = Buffer.from(await (await s.client.skills.content.retrieve(made.id)).arrayBuffer());
  assert.equal(content.readUInt32LE(0), 0x04034b50, 'the content is a zip');
  await assert.rejects(ask({ ...reference, version: '7' }), (e) => e.status === 400 && e.code === 'unsupported_skill_version');
  await assert.rejects(ask({ type: 'skill_reference', skill_id: 'skill_none' }), (e) => e.status === 400 && e.code === 'invalid_skill_reference');
  assert.equal((await s.client.skills.versions.delete('1', { skill_id: made.id })).deleted, true);
  assert.equal((await s.client.skills.delete(made.id)).deleted, true);
  await assert.rejects(s.client.skills.retrieve(made.id), (e) => e.status === 404);
});
