export { EdgeEmbedError } from "./errors.js";
export { loadKernels } from "./kernels.js";
