package edgeembed.nextword

import java.io.File

const val MANIFEST = "bundle.json"
const val GOLDEN = "golden.json"
private const val FORMAT_VERSION = 1L

/**
 * The content of `bundle.json`: the model, the versions that it requires, and the sums of all other files.
 *
 * @throws BundleException for another format, or a model that is not for ONNX Runtime.
 */
class Manifest private constructor(json: Json) {
    init {
        val version = json["format_version"].whole
        if (version != FORMAT_VERSION) {
            throw BundleException("$MANIFEST: got format_version $version, expected $FORMAT_VERSION: update this app")
        }
        val target = json["target"].text
        if (target != "onnx") throw BundleException("$MANIFEST: got target $target, expected onnx: export it again")
    }

    val model: String = json["model"].text
    val files: Map<String, FileSum> = sums(json["files"])
    private val metadata = texts(json.optional("metadata"))
    private val requires = texts(json.optional("requires"))

    init {
        val unknown = listOf(model, GOLDEN).firstOrNull { it !in files }
        if (unknown != null) throw BundleException("$MANIFEST: got no hash of $unknown: $AGAIN")
    }

    /** A text that was saved with the model. */
    fun metadata(key: String): String? = metadata[key]

    /** Refuses a model that this version of ONNX Runtime cannot run. */
    fun requireEngine(onnxruntime: String) {
        if ("onnxruntime_extensions" in requires) {
            throw BundleException(
                "$MANIFEST: its model contains a tokenizer, which this app cannot run: export without one"
            )
        }
        val least = requires["onnxruntime"] ?: return
        if (isOlder(onnxruntime, least)) {
            throw BundleException("got onnxruntime $onnxruntime, expected $least or newer: update it")
        }
    }

    /** Why an operator library of a version is left out, or null. */
    fun lackOf(library: String): String? {
        val least = requires["edge_embed_ops"] ?: return null
        if (!isOlder(library, least)) return null
        return "got edge_embed_ops $library, expected $least or newer: update it; the portable bodies run instead"
    }

    companion object {
        fun of(content: ByteArray): Manifest = Json.parse(content, MANIFEST) { Manifest(it) }
    }
}

private fun texts(json: Json?): Map<String, String> = json?.run { keys.associateWith { this[it].text } }.orEmpty()

private fun sums(files: Json): Map<String, FileSum> = files.keys.associateWith { name ->
    if (File(name).name != name) {
        throw BundleException("$MANIFEST: got a file $name, expected a name without folders: export it again")
    }
    FileSum(files[name]["bytes"].whole, files[name]["sha256"].text)
}

/** Whether a version is older than another, number by number. */
fun isOlder(version: String, needed: String): Boolean {
    val (got, least) = listOf(version, needed).map(::numbers)
    for (at in 0 until maxOf(got.size, least.size)) {
        val difference = got.getOrElse(at) { 0 } - least.getOrElse(at) { 0 }
        if (difference != 0) return difference < 0
    }
    return false
}

private fun numbers(version: String): List<Int> =
    version.split('-', '+').first().split('.').map { part -> part.takeWhile { it in '0'..'9' }.toIntOrNull() ?: 0 }
