// The official MCP SDK for TypeScript types at an interactive Python: over stdio in a sandbox of this machine, over HTTP in a container.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { binary, may, start, until } from './harness.mjs';

const python = '/usr/bin/python3';
const skip = may('python', existsSync(python), `${python} is not there`);

/** Connects a client, which is closed at the end. */
async function connect(t, transport) {
  const client = new Client({ name: 'e2e', version: '1' });
  await client.connect(transport);
  t.after(() => client.close());
  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    assert.ok(result.structuredContent && !result.structuredContent.failure, JSON.stringify(result)); // a command that fails is no failed call
    return result.structuredContent;
  };
  return { client, call };
}

/** Looks at a session until it has shown a text. */
async function shows(call, id, all, text) {
  await until(60000, async () => {
    if (all.includes(text)) return true;
    all += (await call('write_stdin', { session_id: id, yield_time_ms: 250 })).output;
    return all.includes(text);
  }, () => all);
}

async function types({ client, call }) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), ['exec_command', 'restart', 'write_stdin']);
  const first = await call('exec_command', { cmd: `exec ${python} -q`, tty: true, yield_time_ms: 250 });
  const id = first.session_id;
  await shows(call, id, first.output, '>>> ');
  await shows(call, id, (await call('write_stdin', { session_id: id, chars: 'x = 6\n' })).output, '>>> ');
  await shows(call, id, (await call('write_stdin', { session_id: id, chars: 'print(x * 7)\n' })).output, '42\n');
  const again = await call('restart', { session_id: id });
  assert.equal(again.session_id, id);
  await shows(call, id, again.output, '>>> ');
  await shows(call, id, (await call('write_stdin', { session_id: id, chars: 'print(x)\n' })).output, 'NameError');
  const last = await call('write_stdin', { session_id: id, chars: 'exit(3)\n', wait_for: { exit: true } });
  assert.equal(last.exit_code, 3);
  const one = await call('exec_command', { cmd: 'echo out; echo err >&2; exit 4', wait_for: { exit: true } });
  assert.equal(one.exit_code, 4);
  assert.match(one.output, /out\n(.*\n)?.*err/s);
  return one;
}

test('stdio: an interactive Python in a sandbox', { skip }, async (t) => {
  const home = await realpath(await mkdtemp(path.join(tmpdir(), 'hardshell-mcp-')));
  t.after(() => rm(home, { recursive: true, force: true }));
  const transport = new StdioClientTransport({ command: binary, args: ['mcp', '--cwd', home, '--no-login'],
    env: { PATH: process.env.PATH, HOME: home, HARDSHELL_DATA: path.join(home, 'data') } });
  const one = await types(await connect(t, transport));
  assert.match(one.isolation, /^(jail|restricted)/);
  assert.equal(one.cwd_before, home);
});

test('HTTP: an interactive Python in a container', { skip }, async (t) => {
  const s = await start(t);
  const headers = { Authorization: `Bearer ${s.key}` };
  const transport = new StreamableHTTPClientTransport(new URL(`${s.url}/mcp`), { requestInit: { headers } });
  const one = await types(await connect(t, transport));
  assert.match(one.isolation, /^jail, container cntr_/);
  assert.equal(one.cwd_before, '/mnt/data');
  await transport.terminateSession();
  const wrong = new StreamableHTTPClientTransport(new URL(`${s.url}/mcp`), { requestInit: { headers: { Authorization: 'Bearer hsk_wrong' } } });
  await assert.rejects(new Client({ name: 'e2e', version: '1' }).connect(wrong), /401|[Uu]nauthorized|key/);
});
