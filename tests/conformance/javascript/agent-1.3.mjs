// The sample agent on @a2a-js/sdk 1.3, over one binding; what it does with a message is in `../agents/serving.py`. Over
// gRPC it may speak 0.3 instead.
//
//   node agent-1.3.mjs JSONRPC|HTTP+JSON|GRPC 1.0|0.3

import { randomUUID } from "node:crypto";
import { AGENT_CARD_PATH, Role, TaskState } from "a2a-1.3";
import { LegacyA2AService, legacyGrpcService } from "a2a-1.3/compat/v0_3/server/grpc";
import { AgentEvent, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore } from "a2a-1.3/server";
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from "a2a-1.3/server/express";
import { A2AService, grpcService } from "a2a-1.3/server/grpc";
import { serve, serveGrpc } from "./serving.mjs";

const part = (content, more = {}) => ({ content, metadata: undefined, filename: "", mediaType: "", ...more });
const text = (value) => part({ $case: "text", value });

const TASK = [
  text("plain words"),
  part({ $case: "data", value: { count: 3, ratio: 0.5, names: ["Ä", "b"], deep: { yes: true } } }),
  part(
    { $case: "raw", value: Buffer.concat([Buffer.from([0, 1, 254, 255]), Buffer.from(" and words")]) },
    { filename: "small.bin", mediaType: "application/octet-stream" },
  ),
  part(
    { $case: "url", value: "https://files.example.com/report.pdf" },
    { filename: "report.pdf", mediaType: "application/pdf" },
  ),
];

const freed = new Map();
const cancelled = new Map();

class Executor {
  async execute(context, bus) {
    const { taskId, contextId, userMessage, task } = context;
    const said = (words) => ({
      messageId: randomUUID(),
      contextId,
      taskId,
      role: Role.ROLE_AGENT,
      parts: [text(words)],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    });
    const status = (state, words) => ({
      state,
      message: words && said(words),
      timestamp: new Date().toISOString(),
    });
    const rests = (state, words) =>
      bus.publish(
        AgentEvent.statusUpdate({ taskId, contextId, status: status(state, words), metadata: undefined }),
      );
    const makes = (name, parts, more = {}) =>
      bus.publish(
        AgentEvent.artifactUpdate({
          taskId,
          contextId,
          artifact: {
            artifactId: more.id ?? randomUUID(),
            name,
            description: "",
            parts,
            metadata: more.metadata,
            extensions: [],
          },
          append: more.append ?? false,
          lastChunk: more.lastChunk ?? false,
          metadata: undefined,
        }),
      );

    const [word, ...rest] = (userMessage.parts[0].content.value + "").split(" ");
    if (word === "hello" || word === "free") {
      if (word === "free") freed.get(rest[0])();
      bus.publish(AgentEvent.message(said(word === "free" ? "freed" : "hello to you")));
      bus.finished();
      return;
    }
    if (task) {
      // The SDK lets no stream begin with anything else.
      bus.publish(AgentEvent.task(task));
      makes("answer", [text(`told ${word}`)]);
      rests(TaskState.TASK_STATE_COMPLETED);
      bus.finished();
      return;
    }
    bus.publish(
      AgentEvent.task({
        id: taskId,
        contextId,
        status: status(TaskState.TASK_STATE_SUBMITTED),
        artifacts: [],
        history: [userMessage],
        metadata: undefined,
      }),
    );
    if (word === "task") makes("result", TASK, { metadata: { kind: "sample" } });
    if (word === "echo") makes("echo", userMessage.parts, { metadata: userMessage.metadata });
    if (word === "stream") {
      rests(TaskState.TASK_STATE_WORKING, "working on it");
      makes("chunks", [text("one ")], { id: "chunked" });
      makes("chunks", [text("two")], { id: "chunked", append: true, lastChunk: true });
    }
    if (word === "wait") {
      const over = new Promise((resolve) => freed.set(rest[0], () => resolve(true)));
      const stopped = new Promise((resolve) => cancelled.set(taskId, () => resolve(false)));
      rests(TaskState.TASK_STATE_WORKING);
      if (!(await Promise.race([over, stopped]))) {
        rests(TaskState.TASK_STATE_CANCELED, "stopped");
        bus.finished();
        return;
      }
      makes("released", [text("released")]);
    }
    const ends = {
      ask: [TaskState.TASK_STATE_INPUT_REQUIRED, "which one?"],
      auth: [TaskState.TASK_STATE_AUTH_REQUIRED, "who are you?"],
      fail: [TaskState.TASK_STATE_FAILED, "it went wrong"],
      reject: [TaskState.TASK_STATE_REJECTED, "not for me"],
    };
    rests(...(ends[word] ?? [TaskState.TASK_STATE_COMPLETED]));
    bus.finished();
  }

  async cancelTask(taskId) {
    cancelled.get(taskId)?.();
  }
}

const [binding, version] = process.argv.slice(2);

const cardOf = (url, skills) => ({
  name: "sample",
  description: "The sample agent.",
  supportedInterfaces: [{ url, protocolBinding: binding, tenant: "", protocolVersion: version }],
  provider: undefined,
  version: "1.0.0",
  capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true, extensions: [] },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: skills.map((id) => ({
    id,
    name: id,
    description: "A skill.",
    tags: ["sample"],
    examples: [],
    inputModes: [],
    outputModes: [],
    securityRequirements: [],
  })),
  signatures: [],
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
    if (version === "0.3") {
      server.addService(LegacyA2AService, legacyGrpcService({ requestHandler, userBuilder }));
    } else {
      server.addService(A2AService, grpcService({ requestHandler, userBuilder }));
    }
    const legacyCompat = { enabled: version === "0.3" };
    app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler, legacyCompat }));
  });
} else {
  serve((url, app) => {
    const requestHandler = handlerOf(`${url}/`);
    const options = { requestHandler, userBuilder };
    app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
    app.use("/", binding === "JSONRPC" ? jsonRpcHandler(options) : restHandler(options));
  });
}
