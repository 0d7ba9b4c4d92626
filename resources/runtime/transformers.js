/**
 * Under transformers.js, in place of onnxruntime-web: its models run from bundles.
 *
 *     import { env, pipeline } from "@huggingface/transformers";
 *     import { bundles } from "@nnjit/runtime/transformers";
 *     env.fetch = bundles(env.fetch); // onnx/model.onnx becomes onnx/model/manifest.json
 *
 * The bundler gives `onnxruntime-web/webgpu` the address of this module.
 */
import { pointerTo } from "./pointer.js";

export * from "./ort.js";

/**
 * transformers.js fetches a model's file and gives its bytes to the runtime. The bytes that it gets
 * here are the address of that file, by which a session finds the bundle.
 * @template {any[]} Rest
 * @param {(input: string | URL, ...rest: Rest) => Promise<Response>} fetch how all other files come
 * @returns {(input: string | URL, ...rest: Rest) => Promise<Response>}
 */
export const bundles =
  (fetch) =>
  async (input, ...rest) => {
    const { href, pathname } = new URL(input, globalThis.location?.href);
    if (!pathname.endsWith(".onnx")) return fetch(input, ...rest);
    const bytes = pointerTo(href);
    return new Response(bytes, { headers: { "Content-Type": "application/octet-stream", "Content-Length": `${bytes.length}` } });
  };
