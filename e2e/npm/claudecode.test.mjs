// Claude Code as a client of the built binary: a turn with its own Bash, behind a provider of another dialect. It is too
// large to install for every check: HARDSHELL_CLAUDE names its program.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { may, start, toolTexts } from './harness.mjs';

const claude = process.env.HARDSHELL_CLAUDE ?? '';

test('Claude Code completes a turn with a tool', { skip: may('claude-code', existsSync(claude), 'HARDSHELL_CLAUDE names no program') }, async (t) => {
  const s = await start(t, { script: (body) => {
    if (body.messages.at(-1).role === 'tool') return { text: `It printed ${toolTexts(body).at(-1)}` };
    const own = (body.tools ?? []).some((tool) => tool.function.name === 'Bash');
    return own ? { text: 'Let me see.', calls: [{ name: 'Bash', args: { command: 'echo from-$((6*7))', description: 'Echo' } }] } : { text: 'A title' };
  } });
  const home = await mkdtemp(path.join(tmpdir(), 'hardshell-claude-'));
  t.after(() => rm(home, { recursive: true, force: true }));
  const child = spawn(claude, ['-p', 'What does echo print?', '--model', 'mock/mock-1', '--allowedTools', 'Bash'], { cwd: home, stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: home, ANTHROPIC_BASE_URL: s.url, ANTHROPIC_API_KEY: s.key, ANTHROPIC_SMALL_FAST_MODEL: 'mock/mock-1', CI: '1',
      DISABLE_TELEMETRY: '1', DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' } });
  let out = '';
  child.stdout.on('data', (d) => (out += d));
  child.stderr.on('data', (d) => (out += d));
  const late = setTimeout(() => child.kill('SIGKILL'), 100000);
  const code = await new Promise((ok) => child.on('exit', ok));
  clearTimeout(late);
  assert.equal(code, 0, out);
  assert.match(out, /It printed from-42/);
});
