const { join } = require("node:path");
const { getDefaultConfig } = require("expo/metro-config");

const config = getDefaultConfig(__dirname);
config.resolver.assetExts.push("bin"); // the files of the bundle; .json would be packed as a module
config.watchFolders.push(join(__dirname, "../browser/page")); // bundle.js and next_word.js
config.resolver.nodeModulesPaths.push(join(__dirname, "node_modules")); // for what Babel imports in these
module.exports = config;
