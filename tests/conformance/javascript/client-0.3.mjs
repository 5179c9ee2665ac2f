// A driver of the last @a2a-js/sdk 0.3.

import { randomUUID } from "node:crypto";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from "a2a-0.3/client";
import { GrpcTransportFactory } from "a2a-0.3/client/grpc";
import { Absent, HOOK, SENT, drive, fetchWith, grpcSettings, grpcStatus } from "./driving.mjs";

const KINDS = { task: "task", message: "message", "status-update": "status", "artifact-update": "artifact" };

const item = (kind, value) => ({ spelling: "0.3", kind, value });

class Sdk {
  constructor(client, card) {
    this.client = client;
    this.card = item("card", card);
  }

  #params(parts, { task, context, hook = false, history, polling = false }) {
    return {
      message: {
        kind: "message",
        messageId: `m-${randomUUID()}`,
        role: "user",
        parts,
        metadata: SENT,
        ...(task ? { taskId: task } : {}),
        ...(context ? { contextId: context } : {}),
      },
      configuration: {
        acceptedOutputModes: [],
        blocking: !polling,
        ...(hook ? { pushNotificationConfig: HOOK } : {}),
        ...(history === undefined ? {} : { historyLength: history }),
      },
    };
  }

  async send(parts, how) {
    const answer = await this.client.sendMessage(this.#params(parts, how));
    return item(KINDS[answer.kind], answer);
  }

  async *stream(parts, how) {
    yield* this.#events(this.client.sendMessageStream(this.#params(parts, how)));
  }

  async *#events(events) {
    for await (const event of events) yield item(KINDS[event.kind], event);
  }

  async get(id, historyLength) {
    return item("task", await this.client.getTask({ id, ...(historyLength === undefined ? {} : { historyLength }) }));
  }

  async list() {
    throw new Absent("there is no ListTasks in this generation");
  }

  async cancel(id) {
    return item("task", await this.client.cancelTask({ id }));
  }

  subscribe(id) {
    return this.#events(this.client.resubscribeTask({ id }));
  }

  async pushSet(taskId) {
    return item("push", await this.client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig: HOOK }));
  }

  async pushGet(id) {
    const asked = { id, pushNotificationConfigId: HOOK.id };
    return item("push", await this.client.getTaskPushNotificationConfig(asked));
  }

  async pushList(id) {
    return item("pushes", await this.client.listTaskPushNotificationConfig({ id }));
  }

  async pushDelete(id) {
    await this.client.deleteTaskPushNotificationConfig({ id, pushNotificationConfigId: HOOK.id });
    return item("nothing", null);
  }

  async extended() {
    return item("card", await this.client.getAgentCard());
  }

  text(text) {
    return { kind: "text", text };
  }

  data(data) {
    return { kind: "data", data };
  }

  file(raw, name, mimeType) {
    return { kind: "file", file: { bytes: raw.toString("base64"), name, mimeType } };
  }

  failure(error) {
    const code = error.errorResponse?.error?.code ?? error.code ?? null;
    // Over gRPC the SDK makes the error by the status, and keeps that of one that it makes nothing of.
    const grpc = error.cause?.code === undefined ? null : grpcStatus(error.cause.code);
    return { code: typeof code === "number" ? code : null, status: error.status ?? null, grpc };
  }
}

await drive(async ({ url, binding, card_path, key }) => {
  const resolver = new DefaultAgentCardResolver({ fetchImpl: fetchWith(key) });
  const card = await resolver.resolve(url, card_path);
  const transports = [
    new JsonRpcTransportFactory(),
    new RestTransportFactory(),
    new GrpcTransportFactory(grpcSettings(key)),
  ];
  // No other than the one that is wanted: the SDK would take it where the card does not list that.
  const factory = new ClientFactory({ transports: transports.filter((each) => each.protocolName === binding) });
  return new Sdk(await factory.createFromAgentCard(card), card);
});
