/**
 * A tuned model in a web page, with the API of ONNX Runtime Web as far as it goes:
 *
 *     import { InferenceSession, Tensor } from "./nnjit.js";
 *     const session = await InferenceSession.create("bundle/manifest.json");
 *     const out = await session.run({ input: new Tensor("float32", data, [1, 128]) });
 */
export { EngineError, env, InferenceSession, MANIFEST_VERSION, Tensor } from "./sdk/session.js";
