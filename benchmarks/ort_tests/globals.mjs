/** What ONNX Runtime's tests take for granted: names of a test runner, and a page on a server. */
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { isolate, WebWorker } from "../../tests/page/web_worker.js";

Object.assign(globalThis, { describe, it });

/** Makes this process an isolated page of a server of a folder. @param {string} folder */
export async function page(folder) {
  const server = createServer(async ({ url }, answer) => {
    try {
      answer.end(await readFile(join(folder, new URL(url ?? "/", "http://page").pathname)));
    } catch {
      answer.writeHead(404).end();
    }
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", () => ready(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  Object.assign(globalThis, { location: new URL(`http://127.0.0.1:${port}/`) });
  isolate();
  after(() => {
    server.close();
    server.closeAllConnections();
    for (const worker of WebWorker.running) worker.terminate(); // as those of a page that is left
  });
}
