// A real, certified OpenID provider with three users and a login form of one field. Prints its issuer on the first line and
// ends when its standard input closes, so that it never outlives the tests.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import Provider, { interactionPolicy } from 'oidc-provider';

const users = {
  layla: { name: 'Layla', email: 'layla@example.org', groups: ['ml-team'] },
  omar: { name: 'Omar', email: 'omar@example.org', groups: ['auditors'] },
  noor: { name: 'Noor', email: 'noor@example.org', groups: [] },
};

const [consoleId, consoleSecret, cliId] = process.argv.slice(2);

function signingKey(kind, options, alg) {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: `${alg}-key` };
}

async function findAccount(_context, id) {
  const user = users[id];
  if (!user) return undefined;
  return { accountId: id, claims: async () => ({ sub: id, preferred_username: id, email_verified: true, ...user }) };
}

// Everybody has consented to everything: consent is not what the tests are about.
async function loadExistingGrant(context) {
  const { oidc } = context;
  const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
  grant.addOIDCScope('openid profile email groups offline_access');
  await grant.save();
  return grant;
}

// A native client would be asked for consent each time, whatever was granted before.
const policy = interactionPolicy.base();
policy.get('consent').checks.remove('native_client_prompt');

const configuration = {
  clients: [
    {
      client_id: consoleId,
      client_secret: consoleSecret,
      redirect_uris: ['http://127.0.0.1/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
    },
    {
      client_id: cliId,
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      redirect_uris: ['http://127.0.0.1/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
    },
  ],
  scopes: ['openid', 'profile', 'email', 'groups', 'offline_access'],
  claims: { openid: ['sub', 'groups'], profile: ['name', 'preferred_username'], email: ['email', 'email_verified'], groups: ['groups'] },
  conformIdTokenClaims: false,
  features: { devInteractions: { enabled: false }, revocation: { enabled: true }, introspection: { enabled: true } },
  pkce: { required: () => true },
  jwks: { keys: [signingKey('rsa', { modulusLength: 2048 }, 'RS256'), signingKey('ec', { namedCurve: 'P-256' }, 'ES256')] },
  cookies: { keys: [randomBytes(32).toString('hex')] },
  interactions: { policy, url: (_context, interaction) => `/interaction/${interaction.uid}` },
  ttl: { AccessToken: 300, AuthorizationCode: 60, IdToken: 300, Interaction: 300, Session: 3600, Grant: 3600, RefreshToken: 3600 },
  findAccount,
  loadExistingGrant,
};

const form = `<!doctype html><html lang="en"><title>Log in</title>
<form method="post"><label>User <input name="login" autofocus></label> <button type="submit">Log in</button></form></html>`;

async function body(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return new URLSearchParams(Buffer.concat(chunks).toString());
}

async function interact(provider, request, response) {
  if (request.method !== 'POST') {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(form);
    return;
  }
  const login = (await body(request)).get('login');
  if (!Object.hasOwn(users, login)) {
    response.writeHead(403, { 'content-type': 'text/plain' }).end('no such user');
    return;
  }
  await provider.interactionFinished(request, response, { login: { accountId: login, remember: false } });
}

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, configuration);
  // The platform under test listens on a port that is not known here, so a redirect may go to any loopback address.
  provider.Client.prototype.redirectUriAllowed = (uri) => {
    const { protocol, hostname } = new URL(uri);
    return protocol === 'http:' && ['127.0.0.1', 'localhost', '[::1]'].includes(hostname);
  };
  const handle = provider.callback();
  server.on('request', (request, response) => {
    if (request.url.startsWith('/interaction/')) {
      interact(provider, request, response).catch((error) => response.writeHead(400).end(String(error)));
    } else {
      handle(request, response);
    }
  });
  console.log(issuer);
});
process.stdin.on('end', () => process.exit(0)).resume();
