package edgeembed.nextword

import java.io.File
import org.json.JSONArray
import org.json.JSONObject

const val MANIFEST = "bundle.json"
private const val FORMAT_VERSION = 1

/** A bundle that cannot be used; the message is for the user of the app. */
class BundleException(message: String) : Exception(message)

/**
 * The content of `bundle.json`: the model, the versions that it requires, and the sums of all other files.
 *
 * @throws BundleException for another format, or a model that is not for ONNX Runtime.
 */
class Manifest private constructor(json: JSONObject) {
    init {
        val version = json.opt("format_version")
        if (version != FORMAT_VERSION) {
            throw BundleException("$MANIFEST: got format_version $version, expected $FORMAT_VERSION: update this app")
        }
        val target = json.opt("target")
        if (target != "onnx") throw BundleException("$MANIFEST: got target $target, expected onnx: export it again")
    }

    val model: String = json.getString("model")
    val files: Map<String, FileSum> = sums(json.getJSONObject("files"))
    private val metadata = json.optJSONObject("metadata")
    private val requires = json.optJSONObject("requires")

    /** A text that was saved with the model. */
    fun metadata(key: String): String? = metadata?.opt(key) as? String

    /** Refuses a model that this version of ONNX Runtime cannot run. */
    fun requireEngine(onnxruntime: String) {
        if (required("onnxruntime_extensions") != null) {
            throw BundleException(
                "$MANIFEST: its model contains a tokenizer, which this app cannot run: export without one"
            )
        }
        val least = required("onnxruntime") ?: return
        if (isOlder(onnxruntime, least)) {
            throw BundleException("got onnxruntime $onnxruntime, expected $least or newer: update it")
        }
    }

    /** Why an operator library of a version is left out, or null. */
    fun lackOf(library: String): String? {
        val least = required("edge_embed_ops") ?: return null
        if (!isOlder(library, least)) return null
        return "got edge_embed_ops $library, expected $least or newer: update it; the portable bodies run instead"
    }

    private fun required(name: String): String? = requires?.opt(name) as? String

    companion object {
        fun of(content: ByteArray): Manifest = parseJson(content, MANIFEST) { Manifest(it as JSONObject) }
    }
}

private fun sums(files: JSONObject): Map<String, FileSum> {
    val names = files.names() ?: JSONArray()
    return List(names.length()) { names.getString(it) }.associateWith { name ->
        if (File(name).name != name) {
            throw BundleException("$MANIFEST: got a file $name, expected a name without folders: export it again")
        }
        val file = files.getJSONObject(name)
        FileSum(file.getLong("bytes"), file.getString("sha256"))
    }
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
