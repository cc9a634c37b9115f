package edgeembed.nextword

import java.io.File
import java.io.InputStream
import java.security.MessageDigest

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
