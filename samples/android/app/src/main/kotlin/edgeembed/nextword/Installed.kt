package edgeembed.nextword

import ai.onnxruntime.OrtEnvironment
import java.io.File
import java.io.IOException
import java.io.InputStream

/**
 * The bundle of the app, copied to a folder of files: ONNX Runtime reads a large model from a path, which assets lack.
 *
 * A mark beside the folder remembers the check of this bundle in these versions, so that later starts skip it.
 * A folder without its mark is copied anew.
 *
 * @param folder the copy.
 * @param asset opens an asset by the name of its file in the bundle.
 */
class Installed(
    private val folder: File,
    private val environment: OrtEnvironment,
    private val library: OperatorLibrary?,
    private val asset: (String) -> InputStream
) {
    private val mark = File("${folder.path}.checked")

    fun open(): ModelBundle {
        val manifest = read(MANIFEST) { it.readBytes() }
        val state = "${sha256Of(manifest.inputStream())} ${environment.version} ${library?.version}"
        if (mark.exists() && mark.readText() == state) return openChecked()
        mark.delete()
        copy(manifest)
        val bundle = ModelBundle.open(folder, environment, library, check = true)
        mark.writeText(state)
        return bundle
    }

    private fun openChecked(): ModelBundle = try {
        ModelBundle.open(folder, environment, library, check = false)
    } catch (error: Exception) {
        mark.delete()
        throw error
    }

    private fun copy(manifest: ByteArray) {
        folder.deleteRecursively()
        folder.mkdirs()
        for (name in Manifest.of(manifest).files.keys) {
            read(name) { asset -> File(folder, name).outputStream().use { asset.copyTo(it) } }
        }
        File(folder, MANIFEST).writeBytes(manifest)
    }

    private fun <T> read(name: String, use: (InputStream) -> T): T = try {
        asset(name).use(use)
    } catch (error: IOException) {
        throw BundleException("$name: cannot be copied: ${error.message}: free some space, or install this app again")
    }
}
