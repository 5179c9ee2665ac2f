// A driver of @a2a-js/sdk 1.3; with version 0.3, of the transports that it has for agents of 0.3.

import { randomUUID } from "node:crypto";
import {
  AgentCard,
  ListTaskPushNotificationConfigsResponse,
  ListTasksResponse,
  Message,
  Role,
  StreamResponse,
  Task,
  TaskPushNotificationConfig,
} from "a2a-1.3";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from "a2a-1.3/client";
import { GrpcTransportFactory } from "a2a-1.3/client/grpc";
import { isJsonRpcError, isRestError, toJsonRpcError } from "a2a-1.3/errors";
import { isGrpcError } from "a2a-1.3/errors/grpc";
import { Absent, HOOK, SENT, drive, fetchWith, grpcSettings, grpcStatus } from "./driving.mjs";

const KINDS = { task: "task", message: "message", statusUpdate: "status", artifactUpdate: "artifact" };

const item = (kind, value) => ({ spelling: "1.0", kind, value });
const part = (content, more = {}) => ({ content, metadata: undefined, filename: "", mediaType: "", ...more });
const HOOKED = { ...HOOK, tenant: "", taskId: "", authentication: undefined };

class Sdk {
  constructor(client, card) {
    this.client = client;
    this.card = item("card", AgentCard.toJSON(card));
  }

  #request(parts, { task = "", context = "", hook = false, history, polling = false }) {
    return {
      tenant: "",
      message: {
        messageId: `m-${randomUUID()}`,
        contextId: context,
        taskId: task,
        role: Role.ROLE_USER,
        parts,
        metadata: SENT,
        extensions: [],
        referenceTaskIds: [],
      },
      configuration: {
        acceptedOutputModes: [],
        taskPushNotificationConfig: hook ? HOOKED : undefined,
        historyLength: history,
        returnImmediately: polling,
      },
      metadata: undefined,
    };
  }

  async send(parts, how) {
    const answer = await this.client.sendMessage(this.#request(parts, how));
    return "status" in answer ? item("task", Task.toJSON(answer)) : item("message", Message.toJSON(answer));
  }

  async *stream(parts, how) {
    yield* this.#events(this.client.sendMessageStream(this.#request(parts, how)));
  }

  async *#events(events) {
    for await (const event of events) {
      const [[kind, value]] = Object.entries(StreamResponse.toJSON(event));
      yield item(KINDS[kind], value);
    }
  }

  async get(id, historyLength) {
    return item("task", Task.toJSON(await this.client.getTask({ tenant: "", id, historyLength })));
  }

  async list(contextId, pageSize, pageToken) {
    if (this.client.protocolVersion.startsWith("0.")) throw new Absent("there is no ListTasks in this generation");
    const asked = { tenant: "", contextId, status: 0, pageSize, pageToken };
    return item("tasks", ListTasksResponse.toJSON(await this.client.listTasks(asked)));
  }

  async cancel(id) {
    return item("task", Task.toJSON(await this.client.cancelTask({ tenant: "", id, metadata: undefined })));
  }

  subscribe(id) {
    return this.#events(this.client.resubscribeTask({ tenant: "", id }));
  }

  async pushSet(taskId) {
    const made = await this.client.createTaskPushNotificationConfig({ ...HOOKED, taskId });
    return item("push", TaskPushNotificationConfig.toJSON(made));
  }

  async pushGet(taskId) {
    const found = await this.client.getTaskPushNotificationConfig({ tenant: "", taskId, id: HOOK.id });
    return item("push", TaskPushNotificationConfig.toJSON(found));
  }

  async pushList(taskId) {
    const found = await this.client.listTaskPushNotificationConfig({ tenant: "", taskId, pageSize: 0, pageToken: "" });
    return item("pushes", ListTaskPushNotificationConfigsResponse.toJSON(found));
  }

  async pushDelete(taskId) {
    await this.client.deleteTaskPushNotificationConfig({ tenant: "", taskId, id: HOOK.id });
    return item("nothing", null);
  }

  async extended() {
    return item("card", AgentCard.toJSON(await this.client.getAgentCard()));
  }

  text(value) {
    return part({ $case: "text", value });
  }

  data(value) {
    return part({ $case: "data", value });
  }

  file(value, filename, mediaType) {
    return part({ $case: "raw", value }, { filename, mediaType });
  }

  failure(error) {
    // What is no error of A2A is some other failure of the SDK's, and has no code; over HTTP+JSON and gRPC one that
    // the SDK does not know by its reason is internal to it, whatever its status.
    const code = isJsonRpcError(error) ? error.envelopeCode : error.reason ? toJsonRpcError(error).code : null;
    const rest = isRestError(error);
    const grpc = isGrpcError(error);
    return {
      code: (rest || grpc) && code === -32603 ? null : code,
      status: rest ? error.statusCode : null,
      grpc: grpc ? grpcStatus(error.status) : null,
    };
  }
}

await drive(async ({ url, binding, version, card_path, key }) => {
  const settings = version === "0.3" ? { legacyCompat: { enabled: true } } : {};
  const resolver = new DefaultAgentCardResolver({ ...settings, fetchImpl: fetchWith(key) });
  const card = await resolver.resolve(url, card_path);
  const wanted = card.supportedInterfaces.filter((each) => each.protocolVersion.startsWith(version));
  const factory = new ClientFactory({
    transports: [
      new JsonRpcTransportFactory(settings),
      new RestTransportFactory(settings),
      new GrpcTransportFactory({ ...settings, ...grpcSettings(key) }),
    ],
    preferredTransports: [binding],
  });
  const only = { ...card, supportedInterfaces: wanted.filter((each) => each.protocolBinding === binding) };
  return new Sdk(await factory.createFromAgentCard(only), card);
});
