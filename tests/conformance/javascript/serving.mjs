// How the sample agents of JavaScript serve: on a port that the system picks, which the first line tells.

import { Server, ServerCredentials } from "@grpc/grpc-js";
import express from "express";

// The agent is made by `make(url, app)`, which hangs its routes into the application.
export function serve(make) {
  const app = express();
  const server = app.listen(0, "127.0.0.1", () => {
    const url = `http://127.0.0.1:${server.address().port}`;
    make(url, app);
    console.log(JSON.stringify({ url }));
  });
}

// The agent is made by `make(address, server, app)`, which adds its service to the server of gRPC, and hangs the route of
// its card into the application.
export function serveGrpc(make) {
  const server = new Server();
  server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    const app = express();
    const grpc = `127.0.0.1:${port}`;
    make(grpc, server, app);
    const http = app.listen(0, "127.0.0.1", () => {
      console.log(JSON.stringify({ url: `http://127.0.0.1:${http.address().port}`, grpc }));
    });
  });
}
