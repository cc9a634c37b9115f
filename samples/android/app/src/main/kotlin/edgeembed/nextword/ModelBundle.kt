package edgeembed.nextword

import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtSession
import ai.onnxruntime.OrtSession.SessionOptions
import java.io.File

/**
 * A bundle of `edge-embed export --bundle` in ONNX Runtime.
 *
 * @property notice why the operator library was left out, or null.
 */
class ModelBundle private constructor(
    private val folder: File,
    val manifest: Manifest,
    val environment: OrtEnvironment,
    val session: OrtSession,
    private val options: SessionOptions,
    val notice: String?
) : AutoCloseable {
    fun <T> json(name: String, read: (Json) -> T): T = Json.parse(File(folder, name).readBytes(), name, read)

    override fun close() {
        session.close()
        options.close() // ONNX Runtime unloads the operator library, so after the session
    }

    companion object {
        /**
         * Opens a bundle.
         *
         * @param library the operator library of the app.
         * @param check whether to compare files with their hashes, and outputs with the golden ones.
         * @throws BundleException if the bundle is damaged, or is not for this app or engine.
         */
        fun open(folder: File, environment: OrtEnvironment, library: OperatorLibrary?, check: Boolean): ModelBundle {
            val manifest = Manifest.of(File(folder, MANIFEST).readBytes())
            manifest.requireEngine(environment.version)
            if (check) manifest.files.forEach { (name, sum) -> sum.compare(File(folder, name)) }
            val notice = library?.let { manifest.lackOf(it.version) }
            return SessionOptions().closedOnError { options ->
                if (notice == null) library?.register?.invoke(options)
                environment.createSession(File(folder, manifest.model).path, options).closedOnError { session ->
                    val bundle = ModelBundle(folder, manifest, environment, session, options, notice)
                    if (check) compareGolden(bundle)
                    bundle
                }
            }
        }
    }
}

private fun <A : AutoCloseable, R> A.closedOnError(use: (A) -> R): R = try {
    use(this)
} catch (error: Throwable) {
    close()
    throw error
}
