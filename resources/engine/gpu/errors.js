/** What the GPU layer and the GPU engine fail with; `code` crosses the link with the sentence. */
import { EngineError } from "../errors.js";

/** @typedef {"gpu-unavailable" | "gpu-lost" | "gpu-memory" | "gpu-kernel" | ""} GpuCode */

export class GpuError extends EngineError {
  /**
   * @param {GpuCode} code
   * @param {string} error
   * @param {string} [hint]
   * @param {string} [workload] whose kernel it was, where one is to blame
   */
  constructor(code, error, hint = "", workload = "") {
    super(error, hint);
    this.name = "GpuError";
    this.code = code;
    this.workload = workload;
  }
}

/** @param {{reason: string, message: string}} how */
export const lostError = ({ reason, message }) =>
  new GpuError("gpu-lost", `The GPU device was lost (${reason}): ${message || "no more is told"}.`, "Load the model again.");
