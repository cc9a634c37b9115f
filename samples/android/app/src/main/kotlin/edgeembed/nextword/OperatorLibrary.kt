package edgeembed.nextword

import ai.onnxruntime.OrtSession.SessionOptions
import java.lang.reflect.InvocationTargetException

private const val HELPER = "edgeembed.ops.EdgeEmbedOps"

/** The kernels of edge-embed. Without them, ONNX Runtime runs the portable bodies in the model. */
class OperatorLibrary(val version: String, val register: (SessionOptions) -> Unit) {
    companion object {
        /** Finds the library. The call goes through its name, so that the app also builds without the AAR. */
        fun find(): OperatorLibrary? {
            val helper = try {
                Class.forName(HELPER)
            } catch (error: ClassNotFoundException) {
                return null
            }
            val register = helper.getMethod("register", SessionOptions::class.java)
            return OperatorLibrary(helper.getField("VERSION").get(null) as String) { options ->
                try {
                    register.invoke(null, options)
                } catch (error: InvocationTargetException) {
                    throw error.targetException
                }
            }
        }
    }
}
