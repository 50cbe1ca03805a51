// What makes an HTTPS endpoint of DynamoDB Local: it ends TLS and passes the bytes on.
//
// `front.mjs PORT CERTIFICATE KEY` prints the port that it listens on.

import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { createServer } from 'node:tls';

const [port, cert, key] = process.argv.slice(2);
const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (caller) => {
  const store = connect({ host: '127.0.0.1', port: Number(port), noDelay: true });
  caller.setNoDelay();
  caller.pipe(store).pipe(caller);
  for (const socket of [caller, store]) {
    socket.on('error', () => {
      caller.destroy();
      store.destroy();
    });
  }
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
