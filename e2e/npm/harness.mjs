// Starts the built binary and a Chat Completions upstream that plays what a test scripts. Loopback only.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import OpenAI from 'openai';

export const binary = path.resolve(process.env.HARDSHELL_BIN ?? '../../bin/hardshell');

/** An upstream. `script(body, n)` returns the n-th answer:
 *  {text, calls: [{name, args}], usage, status, body, cutAfterText} */
export async function upstream(script) {
  let n = 0;
  const seen = [];
  const server = createServer(async (req, res) => {
    let raw = '';
    for await (const piece of req) raw += piece;
    if (req.url.endsWith('/models')) {
      res.setHeader('content-type', 'application/json');
      return res.end(JSON.stringify({ object: 'list', data: [{ id: 'mock-1', object: 'model', created: 1, owned_by: 'mock' }] }));
    }
    const body = JSON.parse(raw);
    seen.push(body);
    const answer = await script(body, n++);
    if (answer.status) {
      res.writeHead(answer.status, { 'content-type': 'application/json' });
      return res.end(JSON.stringify(answer.body ?? { error: { message: 'scripted failure', type: 'server_error' } }));
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (delta, finish = null) =>
      res.write(`data: ${JSON.stringify({ id: 'chatcmpl-x', object: 'chat.completion.chunk', model: 'mock-1', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
    send({ role: 'assistant', content: '' });
    for (const word of (answer.text ?? '').match(/\S+\s*/g) ?? []) send({ content: word });
    if (answer.cutAfterText) {
      await new Promise((ok) => setTimeout(ok, 200)); // the text is on the wire: this is a cut in mid-stream, not a refused call
      return res.destroy();
    }
    (answer.calls ?? []).forEach((call, index) => {
      send({ tool_calls: [{ index, id: `up_${n}_${index}`, type: 'function', function: { name: call.name ?? 'shell', arguments: '' } }] });
      const args = typeof call.args === 'string' ? call.args : JSON.stringify(call.args);
      for (let at = 0; at < args.length; at += 20) send({ tool_calls: [{ index, function: { arguments: args.slice(at, at + 20) } }] });
    });
    send({}, answer.calls?.length ? 'tool_calls' : 'stop');
    const usage = answer.usage ?? { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    res.write(`data: ${JSON.stringify({ id: 'chatcmpl-x', object: 'chat.completion.chunk', model: 'mock-1', choices: [], usage })}\n\n`);
    res.end('data: [DONE]\n\n');
  });
  await new Promise((ok) => server.listen(0, '127.0.0.1', ok));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, seen, close: () => { server.closeAllConnections(); server.close(); } };
}

/** Starts `hardshell serve` on a free port with a fresh data folder; stops and removes both when the test ends.
 *  `restart(signal)` ends the server by a signal and starts it again, perhaps elsewhere. */
export async function start(t, { script, toml = '' } = {}) {
  const data = await mkdtemp(path.join(tmpdir(), 'hardshell-e2e-'));
  const up = script ? await upstream(script) : null;
  const config = path.join(data, 'hardshell.toml');
  await writeFile(config, `${up ? `[providers.mock]\ntype = "chat"\nbase_url = "${up.url}"\nmodels = ["mock-1"]\n` : ''}${toml}`);
  let log = '';
  const s = { data, upstream: up, log: () => log };
  let stop;
  const launch = async () => {
    const child = spawn(binary, ['serve', '--listen', '127.0.0.1:0', '--data', data, '--config', config], {
      env: { PATH: process.env.PATH, HOME: data }, stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.on('data', (d) => (log += d));
    child.stderr.on('data', (d) => (log += d));
    const exited = new Promise((ok) => child.on('exit', ok));
    stop = async (signal) => {
      child.kill(signal);
      const late = setTimeout(() => child.kill('SIGKILL'), 20000);
      await exited;
      clearTimeout(late);
    };
    s.url = await until(20000, async () => {
      if (child.exitCode !== null) throw new Error(`the server ended:\n${log}`);
      const at = JSON.parse(await readFile(path.join(data, 'server.json'), 'utf8'));
      const health = await fetch(`${at.url}/healthz`);
      return health.ok ? at.url : undefined;
    }, () => log);
    s.key = (await readFile(path.join(data, 'admin.key'), 'utf8')).trim();
    s.client = new OpenAI({ apiKey: s.key, baseURL: `${s.url}/v1`, maxRetries: 0 });
  };
  t.after(async () => {
    await stop?.('SIGTERM');
    up?.close();
    await rm(data, { recursive: true, force: true });
  });
  s.restart = async (signal) => {
    await stop(signal);
    await launch();
  };
  await launch();
  return s;
}

/** Polls until `probe` gives a value; what it throws meanwhile counts as "not yet", unless the server ended. */
export async function until(ms, probe, why = () => '') {
  const end = Date.now() + ms;
  for (;;) {
    try {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
    } catch (e) {
      if (String(e.message).startsWith('the server ended')) throw e;
    }
    if (Date.now() > end) throw new Error(`nothing within ${ms} ms\n${why()}`);
    await new Promise((ok) => setTimeout(ok, 30));
  }
}

export const shell = { type: 'shell', environment: { type: 'container_auto' } };
export const run = (...commands) => ({ args: { commands } });

/** The outputs that the model was shown for its calls, in order, from an upstream request body. */
export const toolTexts = (body) => body.messages.filter((m) => m.role === 'tool').map((m) => m.content);

/** Why a test is skipped that needs a feature: by name, and false where the feature is there. Where HARDSHELL_REQUIRE names
 *  it, its absence is an error. */
export function may(feature, there, why) {
  if (there) return false;
  if ((process.env.HARDSHELL_REQUIRE ?? '').split(',').includes(feature)) throw new Error(`required feature "${feature}" is not to be had: ${why}`);
  return `SKIPPED feature=${feature}: ${why}`;
}
