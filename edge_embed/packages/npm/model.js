export function openModel() {}
