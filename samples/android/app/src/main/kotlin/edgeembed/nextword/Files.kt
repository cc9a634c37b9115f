package edgeembed.nextword

import java.io.File
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.security.MessageDigest
import org.json.JSONException
import org.json.JSONTokener

private const val AGAIN = "copy or download the bundle again"
private const val BLOCK = 1 shl 16

/** Size and SHA-256 of a file. */
class FileSum(private val bytes: Long, private val sha256: String) {
    /** Refuses a file that differs. It is read in blocks, so its size does not matter. */
    fun compare(file: File) {
        if (file.length() != bytes) {
            throw BundleException("${file.name}: got ${file.length()} bytes, expected $bytes: $AGAIN")
        }
        val got = file.inputStream().use(::sha256Of)
        if (got != sha256) throw BundleException("${file.name}: got SHA-256 $got, expected $sha256: $AGAIN")
    }
}

fun sha256Of(stream: InputStream): String {
    val digest = MessageDigest.getInstance("SHA-256")
    val block = ByteArray(BLOCK)
    while (true) {
        val count = stream.read(block)
        if (count < 0) break
        digest.update(block, 0, count)
    }
    return digest.digest().joinToString("") { "%02x".format(it) }
}

/** Reads a JSON file. Unlike org.json, this refuses wrong UTF-8 and anything after the value. */
fun <T> parseJson(content: ByteArray, name: String, read: (Any) -> T): T = try {
    val tokens = JSONTokener(Charsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString())
    val value = tokens.nextValue()
    if (tokens.nextClean() != '\u0000') throw tokens.syntaxError("got more after the value")
    read(value)
} catch (error: CharacterCodingException) {
    throw damaged(name, error)
} catch (error: JSONException) {
    throw damaged(name, error)
} catch (error: ClassCastException) {
    throw damaged(name, error)
}

private fun damaged(name: String, error: Exception) = BundleException("$name: is damaged: ${error.message}: $AGAIN")
