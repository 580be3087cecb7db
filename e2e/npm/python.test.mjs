// The official clients for Python, where they are installed: HARDSHELL_PYTHON names the interpreter that has them.
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { may, run as call, start, toolTexts } from './harness.mjs';

const python = process.env.HARDSHELL_PYTHON ?? 'python3';
const has = (module) => spawnSync(python, ['-c', `import ${module}`]).status === 0;
const script = (body, n) => n === 0 ? { text: 'Let me look. ', calls: [call('echo from $((6*7)); echo problem >&2; exit 3')] } : { text: 'It said 42.' };
const plays = (...args) => new Promise((ok, no) => execFile(python, args, { timeout: 100000 }, (error, out, err) => (error ? no(new Error(err)) : ok(JSON.parse(out)))));

test('a local shell of openai-agents for Python', { skip: may('python-agents', has('agents'), `${python} has no module agents (pip install openai-agents)`) }, async (t) => {
  const s = await start(t, { script });
  const seen = await plays(path.resolve('local_shell.py'), s.url, s.key, 'mock/mock-1');
  assert.deepEqual(seen.asked, ['echo from $((6*7)); echo problem >&2; exit 3']);
  assert.equal(seen.answer, 'It said 42.');
  assert.deepEqual(seen.items, ['message_output_item', 'tool_call_item', 'tool_call_output_item', 'message_output_item']);
  const text = toolTexts(s.upstream.seen[1])[0];
  assert.ok(text.includes('from 42') && text.includes('"exit_code":3'), text);
  assert.equal((await s.client.containers.list()).data.length, 0);
});

test('a hosted shell by openai for Python', { skip: may('python-openai', has('openai'), `${python} has no module openai (pip install openai)`) }, async (t) => {
  const s = await start(t, { script });
  const seen = await plays('-c', `
import json, sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], max_retries=0)
with client.responses.stream(model=sys.argv[3], input="what is it?", tools=[{"type": "shell", "environment": {"type": "container_auto"}}]) as stream:
    for event in stream:
        pass
    final = stream.get_final_response()
print(json.dumps({"status": final.status, "text": final.output_text, "types": [item.type for item in final.output]}))
`, s.url, s.key, 'mock/mock-1');
  assert.deepEqual(seen, { status: 'completed', text: 'Let me look. It said 42.', types: ['message', 'shell_call', 'shell_call_output', 'message'] });
});
