// The official SDK for the Messages API against the built binary: text, tools of the client's, the server's bash.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic, { APIError, AuthenticationError, NotFoundError } from '@anthropic-ai/sdk';
import { start, toolTexts, until } from './harness.mjs';

const model = 'mock/mock-1';
const bash = { type: 'openrouter:bash', parameters: { engine: 'openrouter' } };
const call = (args, name = 'bash') => ({ name, args });
const ask = (more = {}) => ({ model, max_tokens: 1000, messages: [{ role: 'user', content: 'go' }], ...more });

async function open(t, script, toml) {
  const s = await start(t, { script, toml });
  s.anthropic = new Anthropic({ apiKey: s.key, baseURL: s.url, maxRetries: 0 });
  return s;
}

const types = (message) => message.content.map((block) => block.type).join(' ');

test('both key headers and both versions of the API', async (t) => {
  const s = await open(t, () => ({ text: 'Hello there.' }));
  for (const headers of [{}, { 'anthropic-version': '2023-06-01' }, { authorization: null, 'x-api-key': s.key, 'anthropic-version': '2023-06-01' },
    { authorization: null, 'x-api-key': s.key, 'anthropic-version': null }]) {
    const message = await s.anthropic.messages.create(ask(), { headers });
    assert.equal(message.content[0].text, 'Hello there.');
    assert.equal(message.stop_reason, 'end_turn');
    assert.equal(message.usage.input_tokens, 10);
    assert.ok(message._request_id);
  }
  const stranger = new Anthropic({ apiKey: 'wrong', baseURL: `${s.url}/api`, maxRetries: 0 });
  await assert.rejects(stranger.messages.create(ask()), (e) => e instanceof AuthenticationError && e.type === 'authentication_error' && Boolean(e.requestID));
  await assert.rejects(s.anthropic.messages.create(ask({ model: 'mock/none/such' , tools: [{ type: 'web_search_20250305', name: 'web_search' }] })), (e) => e.status === 400);
});

test('a stream, models and a count of tokens', async (t) => {
  const s = await open(t, () => ({ text: 'One two three four.' }));
  const stream = s.anthropic.messages.stream(ask({ system: 'Count.' }));
  let text = '';
  stream.on('text', (delta) => (text += delta));
  const message = await stream.finalMessage();
  assert.equal(text, 'One two three four.');
  assert.equal(message.content[0].text, text);
  assert.deepEqual([message.stop_reason, message.usage.input_tokens, message.usage.output_tokens], ['end_turn', 10, 5]);
  const ids = [];
  for await (const m of s.anthropic.models.list()) ids.push(m.id);
  assert.ok(ids.includes(model), `${ids}`);
  assert.equal((await s.anthropic.models.retrieve(model)).type, 'model');
  await assert.rejects(s.anthropic.models.retrieve('nobody'), NotFoundError);
  const count = await s.anthropic.messages.countTokens({ model, messages: [{ role: 'user', content: 'word '.repeat(100) }] });
  assert.ok(count.input_tokens > 80 && count.input_tokens < 200, `${count.input_tokens}`);
  const cut = await s.anthropic.messages.create(ask({ stop_sequences: ['three'] }));
  assert.deepEqual([cut.content[0].text, cut.stop_reason, cut.stop_sequence], ['One two ', 'stop_sequence', 'three']);
});

test('a bash that the client runs, two calls at once', async (t) => {
  const s = await open(t, (body, n) => n === 0 ? { text: 'Let me look.', calls: [call({ command: 'ls' }), call({ command: 'pwd' })] } : { text: 'Seen.' });
  const tools = [{ type: 'bash_20250124', name: 'bash' }];
  const first = await s.anthropic.messages.stream(ask({ tools })).finalMessage();
  assert.equal(types(first), 'text tool_use tool_use');
  assert.equal(first.stop_reason, 'tool_use');
  assert.deepEqual(first.content[1].input, { command: 'ls' });
  const results = first.content.slice(1).map((use) => ({ type: 'tool_result', tool_use_id: use.id, content: `did ${use.input.command}` }));
  const second = await s.anthropic.messages.create(ask({ tools, messages: [...ask().messages, { role: 'assistant', content: first.content }, { role: 'user', content: results }] }));
  assert.equal(second.content[0].text, 'Seen.');
  assert.deepEqual(toolTexts(s.upstream.seen[1]), ['did ls', 'did pwd']);
  const native = await s.anthropic.messages.create(ask({ tools: [{ type: 'openrouter:bash' }] }));
  assert.equal(native.stop_reason, 'end_turn');
  assert.equal(s.upstream.seen[2].tools[0].function.name, 'bash');
  assert.deepEqual((await s.client.containers.list()).data, []);
});

test('the bash of the server: one shell, its result, its files, and its replay', async (t) => {
  const s = await open(t, (body, n) => [
    { text: 'I begin.', calls: [call({ command: 'cd /tmp && x=five; echo out; echo err >&2; exit 3' })] },
    { calls: [call({ commands: ['pwd; echo "<$x>"', 'cd /tmp; x=six', 'false', 'pwd; echo $x; echo made >/mnt/data/made.txt'] })] },
    { calls: [call({ command: 'pwd; echo $x' })] },
  ][n] ?? { text: 'Done.' });
  const message = await s.anthropic.messages.stream(ask({ tools: [bash] })).finalMessage();
  assert.equal(types(message), ['text', ...Array(6).fill('server_tool_use bash_code_execution_tool_result'), 'text'].join(' '), s.log());
  assert.equal(message.stop_reason, 'end_turn');
  const results = message.content.filter((b) => b.type === 'bash_code_execution_tool_result').map((b) => b.content);
  assert.deepEqual([results[0].stdout, results[0].stderr, results[0].return_code], ['out\n', 'err\n', 3]);
  assert.equal(results[1].stdout, '/mnt/data\n<>\n', 'exit ends the shell');
  assert.equal(results[3].return_code, 1);
  assert.equal(results[4].stdout, '/tmp\nsix\n');
  assert.equal(results[5].stdout, '/tmp\nsix\n', 'the shell lives from call to call');
  const uses = message.content.filter((b) => b.type === 'server_tool_use');
  assert.ok(uses.every((u) => u.id.startsWith('srvtoolu_') && u.name === 'bash_code_execution'));
  assert.deepEqual(uses[3].input, { command: 'false' });
  assert.deepEqual(JSON.parse(toolTexts(s.upstream.seen[1])[0]),
    { command: 'cd /tmp && x=five; echo out; echo err >&2; exit 3', stdout: 'out\n', stderr: 'err\n', exitCode: 3 });
  const file = results[4].content[0].file_id;
  const headers = { 'x-api-key': s.key, 'anthropic-version': '2023-06-01' };
  const meta = await (await fetch(`${s.url}/v1/files/${file}`, { headers })).json();
  assert.deepEqual([meta.type, meta.filename, meta.size_bytes], ['file', 'made.txt', 5]);
  assert.ok(message.container.id.startsWith('cntr_'));
  await until(15000, async () => (await s.client.containers.retrieve(message.container.id)).status === 'expired');
  await until(15000, async () => {
    const content = await fetch(`${s.url}/v1/files/${file}/content`, { headers });
    return content.status === 200 && (await content.text()) === 'made\n';
  });
  const asked = s.upstream.seen.length;
  const again = await s.anthropic.messages.create(ask({ tools: [bash], messages: [...ask().messages, { role: 'assistant', content: message.content }, { role: 'user', content: 'and?' }] }));
  assert.equal(again.content[0].text, 'Done.');
  assert.equal(s.upstream.seen.length, asked + 1);
  assert.equal(toolTexts(s.upstream.seen[asked]).length, 6);
  assert.equal((await s.client.containers.list()).data.length, 1, 'nothing ran again');
});

test('a session keeps its container, a restart gives it a fresh one', async (t) => {
  const script = [
    [call({ command: 'echo one >kept; (sleep 300 >/dev/null 2>&1 &)' })], null,
    [call({ command: 'cat kept; pgrep -c sleep' }), call({ restart: true, command: 'ls; pwd' })], null,
    [call({ command: 'ls; echo two' })], null,
  ];
  const s = await open(t, (body, n) => script[n] ? { calls: script[n] } : { text: 'ok' });
  const turn = () => s.anthropic.messages.create(ask({ tools: [bash], session_id: 'chat-1' }));
  const outputs = (m) => m.content.filter((b) => b.type === 'bash_code_execution_tool_result').map((b) => b.content.stdout);
  const first = await turn();
  const second = await turn();
  assert.deepEqual(outputs(second), ['one\n1\n', '/mnt/data\n'], JSON.stringify(second));
  assert.notEqual(second.container.id, first.container.id);
  const third = await turn();
  assert.deepEqual(outputs(third), ['two\n']);
  assert.equal(third.container.id, second.container.id);
});

test('a time limit ends the batch and the shell, not the turn', async (t) => {
  const s = await open(t, (body, n) => [
    { calls: [call({ commands: ['x=1; echo begun; sleep 300', 'echo never'], timeout_ms: 5000 })] },
    { calls: [call({ command: 'echo "<$x>"; pgrep -c sleep' })] },
  ][n] ?? { text: 'ok' });
  const message = await s.anthropic.messages.create(ask({ tools: [bash] }));
  const results = message.content.filter((b) => b.type === 'bash_code_execution_tool_result').map((b) => b.content);
  assert.deepEqual([results[0].stdout, results[0].return_code, results[1].return_code], ['begun\n', 124, 124]);
  assert.equal(results[2].stdout, '<>\n0\n');
});

test('pause_turn at the loop limit, and continuation', async (t) => {
  const s = await open(t, (body, n) => n < 3 ? { calls: [call({ command: `echo ${n}` })] } : { text: 'At last.' }, '[features.server_tools]\nmax_iterations = 2\n');
  const first = await s.anthropic.messages.create(ask({ tools: [bash] }));
  assert.equal(first.stop_reason, 'pause_turn');
  assert.equal(types(first), 'server_tool_use bash_code_execution_tool_result server_tool_use bash_code_execution_tool_result');
  const second = await s.anthropic.messages.create(ask({ tools: [bash], container: first.container.id, messages: [...ask().messages, { role: 'assistant', content: first.content }] }));
  assert.deepEqual([types(second), second.stop_reason], ['server_tool_use bash_code_execution_tool_result text', 'end_turn']);
  assert.equal(second.container.id, first.container.id);
});

test('mixed: the server runs its call, the client gets its own', async (t) => {
  const own = { name: 'own', input_schema: { type: 'object' } };
  const s = await open(t, (body, n) => n === 0 ? { calls: [call({ command: 'echo here' }), call({ a: 1 }, 'own')] } : { text: 'Both.' });
  const first = await s.anthropic.messages.stream(ask({ tools: [bash, own] })).finalMessage();
  assert.deepEqual([types(first), first.stop_reason], ['server_tool_use bash_code_execution_tool_result tool_use', 'tool_use']);
  const second = await s.anthropic.messages.create(ask({ tools: [bash, own], messages: [...ask().messages, { role: 'assistant', content: first.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: first.content[2].id, content: 'mine' }] }] }));
  assert.equal(second.content[0].text, 'Both.');
  const shown = toolTexts(s.upstream.seen[1]);
  assert.equal(shown.length, 2);
  assert.ok(shown.some((text) => text.includes('here')) && shown.includes('mine'));
});

test('an error in the stream is an APIError, an early one has its status', async (t) => {
  const s = await open(t, (body, n) => n === 0 ? { text: 'Half of', cutAfterText: true } : { status: 429, body: { error: { message: 'slow down', type: 'rate_limit_error' } } });
  await assert.rejects(s.anthropic.messages.stream(ask()).finalMessage(), (e) => e instanceof APIError && e.type === 'api_error' && Boolean(e.requestID), s.log());
  await assert.rejects(s.anthropic.messages.stream(ask()).finalMessage(), (e) => e.status === 429 && e.type === 'rate_limit_error');
});

test("the requests of OpenRouter's page, and where its bash does not work", async (t) => {
  const s = await open(t, (body, n) => n % 2 === 0 ? { calls: [call({ command: 'uname -s' })] } : { text: 'A Linux.' }, '[models.aliases]\n"anthropic/claude-sonnet-4.5" = "mock/mock-1"\n');
  const post = (path, body) => fetch(`${s.url}/api/v1/${path}`, { method: 'POST', headers: { Authorization: `Bearer ${s.key}`, 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  for (const content of ['List the files in the current directory and show me the OS version.', 'List the files in the current directory.']) {
    const response = await post('messages', { model: 'anthropic/claude-sonnet-4.5', max_tokens: 1024, messages: [{ role: 'user', content }],
      tools: [{ type: 'openrouter:bash', parameters: { engine: 'openrouter' } }] });
    const data = await response.json();
    assert.equal(types(data), 'server_tool_use bash_code_execution_tool_result text', JSON.stringify(data));
    assert.deepEqual([data.model, data.content[1].content.stdout], ['anthropic/claude-sonnet-4.5', 'Linux\n']);
  }
  for (const tool of [{ type: 'openrouter:bash', parameters: { environment: { type: 'container_auto' } } }, { type: 'bash_20250124', name: 'bash' }]) {
    const data = await (await post('messages', { ...ask(), tools: [tool] })).json();
    assert.deepEqual([data.stop_reason, data.content[0].name, data.content[0].input], ['tool_use', 'bash', { command: 'uname -s' }]);
    await (await post('messages', ask())).json(); // the script's second answer
  }
  const asked = s.upstream.seen.length;
  for (const [path, body] of [['responses', { model, input: 'go', tools: [bash] }], ['chat/completions', { model, messages: ask().messages, tools: [bash] }],
    ['chat/completions', { model, messages: ask().messages, tools: [{ type: 'shell' }] }]]) {
    const response = await post(path, body);
    const { error } = await response.json();
    assert.equal(response.status, 400);
    assert.match(error.message, body.tools[0].type === 'shell' ? /\/v1\/responses/ : /\/v1\/messages/);
  }
  assert.equal(s.upstream.seen.length, asked);
});

test('Chat Completions by the official SDK', async (t) => {
  const s = await open(t, (body, n) => n === 0 ? { text: 'Let me.', calls: [call({ a: 1 }, 'own')] } : { text: 'One two.' });
  const tools = [{ type: 'function', function: { name: 'own', parameters: { type: 'object' } } }];
  const messages = [{ role: 'system', content: 'rules' }, { role: 'user', content: 'go' }];
  const first = await s.client.chat.completions.create({ model, messages, tools });
  assert.equal(first.choices[0].finish_reason, 'tool_calls');
  const answer = { role: 'tool', tool_call_id: first.choices[0].message.tool_calls[0].id, content: 'mine' };
  const stream = s.client.chat.completions.stream({ model, tools, messages: [...messages, first.choices[0].message, answer], stream_options: { include_usage: true } });
  const second = await stream.finalChatCompletion();
  assert.deepEqual([second.choices[0].message.content, second.choices[0].finish_reason, second.usage.prompt_tokens], ['One two.', 'stop', 10]);
  assert.deepEqual(toolTexts(s.upstream.seen[1]), ['mine']);
});
