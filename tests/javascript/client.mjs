// A client of an agent, on one of the SDKs: reads the card, then the extended one, over one binding.
//
//   node client.mjs '{"sdk": "a2a-0.3", "url": "http://…/", "binding": "HTTP+JSON", "headers": {…}, "legacy": false}'
//
// Prints what the SDK made of it as one line of JSON. `legacy` has a client of 1.x speak 0.3.

const asked = JSON.parse(process.argv[2]);
const sdk = await import(`${asked.sdk}/client`);

const fetchImpl = (url, init = {}) =>
  fetch(url, { ...init, headers: { ...Object.fromEntries(new Headers(init.headers)), ...asked.headers } });
const settings = { fetchImpl, ...(asked.legacy ? { legacyCompat: { enabled: true } } : {}) };
const factory = new sdk.ClientFactory({
  transports: [new sdk.JsonRpcTransportFactory(settings), new sdk.RestTransportFactory(settings)],
  preferredTransports: [asked.binding],
  cardResolver: new sdk.DefaultAgentCardResolver(settings),
});

const card = await new sdk.DefaultAgentCardResolver(settings).resolve(asked.url, ".well-known/agent-card.json");
const client = await factory.createFromUrl(asked.url, ".well-known/agent-card.json");
console.log(JSON.stringify({ card, transport: client.transport.constructor.name, extended: await client.getAgentCard() }));
