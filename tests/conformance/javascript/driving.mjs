// What the drivers of JavaScript have in common: the operations of `../clients/driving.py`, word for word.
//
//   node client-X.mjs '{"url": …, "binding": …, "version": …, "card_path": …, "key": …}'
//
// Prints one document, as told there.

import { randomUUID } from "node:crypto";
import { InterceptingCall, status } from "@grpc/grpc-js";

const LIMIT = 10_000;
const POLL = 20;
const PATIENCE = 2_000;
const RESTING = ["completed", "canceled", "failed", "rejected", "input-required", "auth-required"];

export const HOOK = { id: "hook", url: "https://localhost:9/a", token: "secret-word" };
export const BYTES = Buffer.concat([Buffer.from([0, 255, 254]), Buffer.from(" of the client")]);
export const SENT = { sent: "by the client" };

export class Absent extends Error {}

export async function collected(events) {
  const found = [];
  for await (const event of events) found.push(event);
  return found;
}

// How a card is fetched with an API key; without one as the SDK does it.
export const fetchWith = (key) =>
  key &&
  ((url, init = {}) => {
    const headers = new Headers(init.headers);
    headers.set("x-api-key", key);
    return fetch(url, { ...init, headers });
  });

// The settings of a transport of gRPC whose calls show an API key.
export const grpcSettings = (key) => {
  if (!key) return {};
  const showing = (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start(metadata, listener, next) {
        metadata.set("x-api-key", key);
        next(metadata, listener);
      },
    });
  return { grpcCallOptions: { interceptors: [showing] } };
};

// The name of a status of gRPC.
export const grpcStatus = (code) => status[code];

const unknown = () => `none-${randomUUID()}`;
const idOf = (item) => {
  if (item.kind !== "task") throw new Error(`a task was wanted, and it is a ${item.kind}`);
  return item.value.id;
};
const contextOf = (item) => item.value.contextId;
const stateOf = (item) => item.value.status.state.replace("TASK_STATE_", "").toLowerCase().replace("_", "-");
const paused = () => new Promise((resolve) => setTimeout(resolve, POLL));

// Some agents always answer at once: the last task is looked at again until it rests.
async function settled(driver, items) {
  while (items.at(-1).kind === "task" && !RESTING.includes(stateOf(items.at(-1)))) {
    await paused();
    items[items.length - 1] = await driver.get(idOf(items.at(-1)));
  }
  return items;
}

const said = async (driver, text, more = {}) =>
  settled(driver, [await driver.send([driver.text(text)], { ...more })]);
const streamed = (driver, text, more = {}) => collected(driver.stream([driver.text(text)], more));

async function started(driver, word) {
  const parts = [driver.text(`wait ${word}`)];
  const early = driver.send(parts, { polling: true }).catch((error) => ({ error }));
  let made = await Promise.race([early, new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
  if (made?.error) throw made.error;
  if (!made) {
    // a2a-sdk 0.2 always waits, and ends a task whose stream is left: begun as one that goes on beside.
    made = await new Promise((resolve, reject) => {
      const streaming = async () => {
        for await (const { value } of driver.stream(parts, {})) resolve(value.taskId ?? value.id);
      };
      streaming().catch(reject);
    });
    made = await driver.get(made);
  }
  while (stateOf(made) === "submitted") {
    await paused();
    made = await driver.get(idOf(made));
  }
  return made;
}

async function turns(driver) {
  const asked = await said(driver, "ask");
  const to = { task: idOf(asked.at(-1)), context: contextOf(asked.at(-1)) };
  return [...asked, ...(await said(driver, "blue", to))];
}

const completed = async (driver) => idOf((await said(driver, "task")).at(-1));

const OPERATIONS = {
  card: async (driver) => [driver.card],
  extended_card: async (driver) => [await driver.extended()],

  send_message: (driver) => said(driver, "hello"),
  stream_message: (driver) => streamed(driver, "hello"),
  send_task: (driver) => said(driver, "task"),
  send_every_part: async (driver) => {
    const parts = [
      driver.text("echo"),
      driver.data({ nested: { list: [1, 2.5, "three", null, false] } }),
      driver.file(BYTES, "mine.bin", "image/png"),
    ];
    return settled(driver, [await driver.send(parts, {})]);
  },
  stream_task: (driver) => streamed(driver, "stream"),
  stream_every_part: (driver) => streamed(driver, "task"),
  stream_question: (driver) => streamed(driver, "ask"),
  stream_failure: (driver) => streamed(driver, "fail"),
  send_failure: (driver) => said(driver, "fail"),
  send_rejection: (driver) => said(driver, "reject"),
  send_login: (driver) => said(driver, "auth"),
  turns,
  stream_second_turn: async (driver) => {
    const asked = await said(driver, "ask");
    const to = { task: idOf(asked.at(-1)), context: contextOf(asked.at(-1)) };
    return [...asked, ...(await streamed(driver, "blue", to))];
  },
  two_tasks_of_a_context: async (driver) => {
    const first = await said(driver, "task");
    return [...first, ...(await said(driver, "stream", { context: contextOf(first.at(-1)) }))];
  },

  get: async (driver) => {
    const made = await said(driver, "stream");
    return [...made, await driver.get(idOf(made.at(-1)))];
  },
  get_history: async (driver) => {
    const made = await turns(driver);
    return [await driver.get(idOf(made.at(-1)), 1)];
  },
  send_history: (driver) => said(driver, "task", { history: 1 }),
  list_tasks: async (driver) => {
    const first = await said(driver, "task");
    const context = contextOf(first.at(-1));
    await said(driver, "stream", { context });
    const page = await driver.list(context, 1, "");
    return [page, await driver.list(context, 1, page.value.nextPageToken ?? "")];
  },
  send_without_waiting: async (driver) => {
    const word = randomUUID();
    const made = await driver.send([driver.text(`wait ${word}`)], { polling: true });
    await said(driver, `free ${word}`);
    return settled(driver, [made]);
  },
  cancel: async (driver) => {
    const made = await started(driver, "cancel");
    return settled(driver, [await driver.cancel(idOf(made))]);
  },
  subscribe: async (driver) => {
    const word = randomUUID();
    const made = await started(driver, word);
    const events = [];
    for await (const event of driver.subscribe(idOf(made))) {
      if (events.length === 0) await said(driver, `free ${word}`);
      events.push(event);
    }
    return events;
  },

  push_set: async (driver) => [await driver.pushSet(await completed(driver))],
  push_get: async (driver) => {
    const task = await completed(driver);
    await driver.pushSet(task);
    return [await driver.pushGet(task)];
  },
  push_list: async (driver) => {
    const task = await completed(driver);
    await driver.pushSet(task);
    return [await driver.pushList(task)];
  },
  push_delete: async (driver) => {
    const task = await completed(driver);
    await driver.pushSet(task);
    return [await driver.pushDelete(task), await driver.pushList(task)];
  },
  push_in_send: async (driver) => {
    const made = await said(driver, "task", { hook: true });
    return [await driver.pushGet(idOf(made.at(-1)))];
  },

  error_get_unknown: async (driver) => [await driver.get(unknown())],
  error_cancel_unknown: async (driver) => [await driver.cancel(unknown())],
  error_cancel_completed: async (driver) => [await driver.cancel(await completed(driver))],
  error_subscribe_unknown: (driver) => collected(driver.subscribe(unknown())),
  error_subscribe_completed: async (driver) => collected(driver.subscribe(await completed(driver))),
  error_send_to_unknown: (driver) => said(driver, "task", { task: unknown() }),
  error_stream_to_unknown: (driver) => streamed(driver, "task", { task: unknown() }),
  error_send_to_completed: async (driver) => {
    const made = (await said(driver, "task")).at(-1);
    return said(driver, "task", { task: idOf(made), context: contextOf(made) });
  },
  error_push_of_unknown: async (driver) => [await driver.pushGet(unknown())],
};

const failureOf = (error) => ({ spelling: "1.0", type: error.constructor.name, text: String(error.message) });

async function tried(driver, operation) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(Object.assign(new Error("too late"), { name: "TimeoutError" })), LIMIT);
  });
  try {
    return { items: await Promise.race([operation(driver), late]) };
  } catch (error) {
    if (error instanceof Absent) return { absent: error.message };
    return { failed: { ...failureOf(error), ...driver.failure(error) } };
  } finally {
    clearTimeout(timer);
  }
}

export async function drive(open) {
  const asked = JSON.parse(process.argv[2]);
  const wanted = Object.keys(OPERATIONS).filter((name) => !asked.operations || asked.operations.includes(name));
  const found = {};
  let driver;
  let failed;
  try {
    driver = await open(asked);
  } catch (error) {
    failed = { ...failureOf(error), code: null, status: null };
  }
  for (const name of wanted) found[name] = failed ? { failed } : await tried(driver, OPERATIONS[name]);
  process.stdout.write(JSON.stringify(found) + "\n", () => process.exit(0));
}
