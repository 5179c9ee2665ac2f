// The sample agent on the last @a2a-js/sdk 0.3, over one binding; its words are in `../agents/serving.py`.
//
//   node agent-0.3.mjs JSONRPC|HTTP+JSON|GRPC

import { randomUUID } from "node:crypto";
import { AGENT_CARD_PATH } from "a2a-0.3";
import { DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore } from "a2a-0.3/server";
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from "a2a-0.3/server/express";
import { A2AService, grpcService } from "a2a-0.3/server/grpc";
import { serve, serveGrpc } from "./serving.mjs";

const text = (value) => ({ kind: "text", text: value });

const BYTES = Buffer.concat([Buffer.from([0, 1, 254, 255]), Buffer.from(" and words")]);
const TASK = [
  text("plain words"),
  { kind: "data", data: { count: 3, ratio: 0.5, names: ["Ä", "b"], deep: { yes: true } } },
  {
    kind: "file",
    file: { bytes: BYTES.toString("base64"), name: "small.bin", mimeType: "application/octet-stream" },
  },
  {
    kind: "file",
    file: { uri: "https://files.example.com/report.pdf", name: "report.pdf", mimeType: "application/pdf" },
  },
];

const freed = new Map();
const cancelled = new Map();

class Executor {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const said = (words) => ({
      kind: "message",
      messageId: randomUUID(),
      contextId,
      taskId,
      role: "agent",
      parts: [text(words)],
    });
    const status = (state, words) => ({
      state,
      timestamp: new Date().toISOString(),
      ...(words ? { message: said(words) } : {}),
    });
    const rests = (state, words) => {
      const final = state !== "working";
      bus.publish({ kind: "status-update", taskId, contextId, status: status(state, words), final });
    };
    const makes = (name, parts, { id = randomUUID(), metadata, ...more } = {}) =>
      bus.publish({
        kind: "artifact-update",
        taskId,
        contextId,
        artifact: { artifactId: id, name, parts, ...(metadata ? { metadata } : {}) },
        ...more,
      });

    const [word, ...rest] = (userMessage.parts[0].text + "").split(" ");
    if (word === "hello" || word === "free") {
      if (word === "free") freed.get(rest[0])();
      bus.publish(said(word === "free" ? "freed" : "hello to you"));
      bus.finished();
      return;
    }
    if (task) {
      makes("answer", [text(`told ${word}`)]);
      rests("completed");
      bus.finished();
      return;
    }
    bus.publish({ kind: "task", id: taskId, contextId, status: status("submitted"), history: [userMessage] });
    if (word === "task") makes("result", TASK, { metadata: { kind: "sample" } });
    if (word === "echo") makes("echo", userMessage.parts, { metadata: userMessage.metadata });
    if (word === "stream") {
      rests("working", "working on it");
      makes("chunks", [text("one ")], { id: "chunked", append: false, lastChunk: false });
      makes("chunks", [text("two")], { id: "chunked", append: true, lastChunk: true });
    }
    if (word === "wait") {
      const over = new Promise((resolve) => freed.set(rest[0], () => resolve(true)));
      const stopped = new Promise((resolve) => cancelled.set(taskId, () => resolve(false)));
      rests("working");
      if (!(await Promise.race([over, stopped]))) {
        rests("canceled", "stopped");
        bus.finished();
        return;
      }
      makes("released", [text("released")]);
    }
    const ends = {
      ask: ["input-required", "which one?"],
      auth: ["auth-required", "who are you?"],
      fail: ["failed", "it went wrong"],
      reject: ["rejected", "not for me"],
    };
    rests(...(ends[word] ?? ["completed"]));
    bus.finished();
  }

  async cancelTask(taskId) {
    cancelled.get(taskId)?.();
  }
}

const binding = process.argv[2];

const cardOf = (url, skills) => ({
  name: "sample",
  description: "The sample agent.",
  protocolVersion: "0.3.0",
  version: "1.0.0",
  url,
  preferredTransport: binding,
  capabilities: { streaming: true, pushNotifications: true },
  supportsAuthenticatedExtendedCard: true,
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: skills.map((id) => ({ id, name: id, description: "A skill.", tags: ["sample"] })),
});

const handlerOf = (url) =>
  new DefaultRequestHandler(
    cardOf(url, ["echo"]),
    new InMemoryTaskStore(),
    new Executor(),
    undefined,
    new InMemoryPushNotificationStore(),
    { send: async () => {} },
    cardOf(url, ["echo", "secret"]),
  );

const userBuilder = UserBuilder.noAuthentication;

if (binding === "GRPC") {
  serveGrpc((address, server, app) => {
    const requestHandler = handlerOf(address);
    server.addService(A2AService, grpcService({ requestHandler, userBuilder }));
    app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
  });
} else {
  serve((url, app) => {
    const requestHandler = handlerOf(`${url}/`);
    const options = { requestHandler, userBuilder };
    app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
    app.use("/", binding === "JSONRPC" ? jsonRpcHandler(options) : restHandler(options));
  });
}
