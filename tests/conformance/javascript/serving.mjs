// How the sample agents of JavaScript serve: on a port that the system picks, which the first line tells.

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
