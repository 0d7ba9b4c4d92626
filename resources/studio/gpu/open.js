/** Opens a GPU device of either implementation. */
import { openBridge } from "./bridge.js";
import { GpuError } from "../../engine/gpu/errors.js";
import { openNative } from "../../engine/gpu/native.js";

/**
 * @param {import("../../types/gpu.js").GpuSource} source
 * @returns {Promise<import("../../types/gpu.js").GpuDevice>} rejects with a GpuError "gpu-unavailable"
 */
export async function openGpu({ implementation, bridge }) {
  if (implementation === "navigator") return openNative();
  if (bridge) return openBridge(bridge);
  throw new GpuError("gpu-unavailable", "This page has no bridge to a GPU.", "Open the page from the Studio.");
}
