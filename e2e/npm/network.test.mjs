// The network part of check 16 of the wire reference, and what a request may bring in by address.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { run, start, toolTexts } from './harness.mjs';

const refused = (status, code, param) => (e) => e.status === status && e.code === code && (!param || e.param === param);
const outputs = (response) => response.output.filter((item) => item.type === 'shell_call_output').flatMap((item) => item.output);

/** A server of this machine under the name localhost; `seen` has the path and the headers of each request. */
async function host(t, answer) {
  const seen = [];
  const server = createServer((req, res) => {
    seen.push({ url: req.url, headers: req.headers });
    answer(req, res);
  });
  await new Promise((ok) => server.listen(0, '127.0.0.1', ok));
  t.after(() => { server.closeAllConnections(); server.close(); });
  return { port: server.address().port, seen };
}

const limits = (more) => `[features.server_tools.shell_limits]\nallowed_egress_ranges = ["127.0.0.0/8", "::1"]\ninput_file_url_ranges = ["127.0.0.0/8", "::1"]\n${more}\n`;

test('16: a container is made with an allowlist and secrets, which are read back without their values', async (t) => {
  const page = await host(t, (req, res) => res.end(`page of ${req.headers.host}\n`));
  const url = `http://localhost:${page.port}/`;
  const canary = 'sk-canary-c81e728d9d4c2f63';
  const s = await start(t, {
    toml: limits('allowed_egress_hosts = ["localhost:*", "api.example.com"]'),
    script: (body) => toolTexts(body).length === 0
      ? { calls: [run(`curl -sS --noproxy '' ${url}; curl -sS -o /dev/null -w '%{http_code}\\n' http://elsewhere.example.com/; echo $TOKEN`)] } : { text: 'done' },
  });
  const network_policy = { type: 'allowlist', allowed_domains: ['localhost:*', 'api.example.com'], domain_secrets: [{ domain: 'api.example.com', name: 'TOKEN', value: canary }] };
  const made = await s.client.containers.create({ name: 'with a network', network_policy });
  const shown = { type: 'allowlist', allowed_domains: ['localhost:*', 'api.example.com'] };
  assert.deepEqual(made.network_policy, shown);
  const read = await s.client.containers.retrieve(made.id);
  assert.deepEqual(read.network_policy, shown);
  for await (const c of s.client.containers.list()) assert.ok(!JSON.stringify(c).includes(canary));

  const environment = { type: 'container_reference', container_id: made.id };
  const response = await s.client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [{ type: 'shell', environment }] });
  const [output] = outputs(response);
  assert.match(output.stdout, new RegExp(`^page of localhost:${page.port}\n403\nhsp_[0-9a-f]{32}\n$`));
  assert.match(JSON.stringify(output.receipt.blocked), /elsewhere\.example\.com:80 is not allowed/);
  assert.ok(!page.seen.some((r) => JSON.stringify(r).includes('hsp_')));

  // The same in a container that the request makes: the answer's tools do not repeat the secret.
  const auto = await s.client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [{ type: 'shell', environment: { type: 'container_auto', network_policy } }] });
  assert.match(outputs(auto)[0].stdout, /hsp_/);
  assert.deepEqual(auto.tools[0].environment.network_policy, shown);
  for (const body of [auto, await s.client.responses.retrieve(auto.id)]) assert.ok(!JSON.stringify(body).includes(canary));
  assert.ok(!JSON.stringify(s.upstream.seen).includes(canary), 'the model reads the value');
  assert.ok(!s.log().includes(canary), 'the log has the value');

  await s.client.containers.delete(made.id);
  await assert.rejects(s.client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [{ type: 'shell', environment }] }), refused(404, 'container_not_found', 'tools[0].environment.container_id'));

  const bad = (policy) => s.client.containers.create({ name: 'bad', network_policy: policy });
  const domain_secrets = network_policy.domain_secrets;
  for (const policy of [{ type: 'allowlist', allowed_domains: ['elsewhere.example.com'] }, { type: 'allowlist', allowed_domains: ['*'] }, { type: 'allowlist', allowed_domains: [] },
    { type: 'open' }, { type: 'disabled', allowed_domains: ['localhost:*'] }, { type: 'allowlist', allowed_domains: ['127.0.0.1'] }, { type: 'allowlist', allowed_domains: ['bundle:npm'] },
    { type: 'allowlist', allowed_domains: ['localhost:*'], domain_secrets }, { type: 'allowlist', allowed_domains: ['api.example.com'], domain_secrets: [{ placeholder: 'NONE' }] },
    { type: 'allowlist', allowed_domains: ['api.example.com'], domain_secrets: [{ ...domain_secrets[0], value: 'x'.repeat((64 << 10) + 1) }] }]) {
    await assert.rejects(bad(policy), refused(400, 'network_policy_rejected'), JSON.stringify(policy).slice(0, 200));
    await assert.rejects(s.client.responses.create({ model: 'mock/mock-1', input: 'go', tools: [{ type: 'shell', environment: { type: 'container_auto', network_policy: policy } }] }),
      refused(400, 'shell_environment_rejected'), JSON.stringify(policy).slice(0, 200));
  }
});

test('an input_file by address is fetched once, lies there before the first command, and is not put over what became of it', async (t) => {
  const files = await host(t, (req, res) => {
    if (req.url === '/moved') return res.writeHead(302, { location: '/there.csv' }).end();
    if (req.url.startsWith('/away')) return res.writeHead(302, { location: `http://127.0.0.1:${files.port}/secret` }).end();
    if (req.url === '/none') return res.writeHead(404).end();
    res.setHeader('content-type', 'text/csv');
    res.end(`${req.url.split('?')[0]}\n`);
  });
  const at = (path) => `http://localhost:${files.port}${path}`;
  const s = await start(t, {
    toml: limits('input_file_urls = "http"'),
    script: (body) => body.tools?.length && body.messages.at(-1).role !== 'tool' ? { calls: [run('cat data.csv data-2.csv moved 2>&1; echo edited >data.csv')] } : { text: 'done' },
  });
  const file = (path) => ({ type: 'input_file', file_url: at(path) });
  const ask = (content, more = {}) => s.client.responses.create({ model: 'mock/mock-1', input: [{ role: 'user', content }], tools: [{ type: 'shell', environment: { type: 'container_auto' } }], ...more });
  const first = await ask([file('/a/data.csv?signature=1'), { type: 'input_file', filename: 'data.csv', file_data: Buffer.from('sent\n').toString('base64') }, file('/moved')]);
  assert.equal(outputs(first)[0].stdout, '/a/data.csv\nsent\n/there.csv\n');
  assert.ok(!JSON.stringify(s.upstream.seen).includes('signature'), 'the model reads the address');
  const fetched = files.seen.length;
  const next = await ask([{ type: 'input_text', text: 'again' }], { previous_response_id: first.id });
  assert.equal(outputs(next)[0].stdout, 'edited\nsent\n/there.csv\n');
  assert.equal(files.seen.length, fetched, 'a later turn fetches it again');
  const again = await ask([file('/a/data.csv?signature=1')], { previous_response_id: first.id });
  assert.equal(outputs(again)[0].stdout, 'edited\nsent\n/there.csv\n', 'the same file is put over what became of it');
  for (const r of files.seen) assert.ok(!r.headers.authorization && !r.headers.cookie && !r.headers.referer, JSON.stringify(r));

  // Without a shell a text file is read to the model.
  await s.client.responses.create({ model: 'mock/mock-1', input: [{ role: 'user', content: [file('/read.csv')] }] });
  assert.match(JSON.stringify(s.upstream.seen.at(-1).messages), /\/read\.csv/);

  const before = files.seen.length;
  for (const [part, status, code] of [[file('/none'), 502, 'input_file_fetch_failed'], [file('/away'), 400, 'invalid_input_file_url'],
    [{ type: 'input_file', file_url: `http://127.0.0.1:${files.port}/secret` }, 400, 'invalid_input_file_url'], [{ type: 'input_file', file_url: 'file:///etc/passwd' }, 400, 'invalid_input_file_url'],
    [{ type: 'input_file', file_url: 'http://10.0.0.1/secret' }, 400, 'invalid_input_file_url'], [{ type: 'input_file', file_url: at('/x'), file_id: 'file_x' }, 400, 'invalid_input_file']]) {
    await assert.rejects(ask([part]), (e) => e.status === status && e.code === code, JSON.stringify(part));
  }
  assert.ok(!files.seen.slice(before).some((r) => r.url === '/secret'), 'a redirect to an address was followed');
});

test('without a configuration nothing is fetched from this machine, and not without TLS', async (t) => {
  const files = await host(t, (req, res) => res.end('inside\n'));
  const s = await start(t, { script: () => ({ text: 'done' }) });
  for (const file_url of [`http://localhost:${files.port}/`, `https://localhost:${files.port}/`]) {
    await assert.rejects(s.client.responses.create({ model: 'mock/mock-1', input: [{ role: 'user', content: [{ type: 'input_file', file_url }] }] }),
      refused(400, 'invalid_input_file_url', 'input[0].content[0].file_url'));
  }
  assert.equal(files.seen.length, 0);
});
