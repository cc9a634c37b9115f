package edgeembed.nextword

import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject
import org.json.JSONTokener

const val AGAIN = "copy or download the bundle again"

/** A bundle that cannot be used; the message is for the user of the app. */
class BundleException(message: String) : Exception(message)

/**
 * A value in a JSON file of a bundle, which must have the type that is asked for. org.json would make 5 of 5.9, and a
 * text of a number.
 *
 * @param place where the value is, for errors.
 */
class Json private constructor(private val value: Any?, private val place: String) {
    val text: String get() = typed("a text")
    val list: List<Json>
        get() = typed<JSONArray>("a list").let { list -> List(list.length()) { Json(list.opt(it), "$place$it: ") } }
    val keys: List<String> get() = typed<JSONObject>("an object").keys().asSequence().map { it.toString() }.toList()

    val whole: Long
        get() {
            val number = if (value is Int) value.toLong() else typed<Long>("a whole number")
            return if (number >= 0) number else wrong("a whole number")
        }

    val tolerance: Double
        get() {
            val number = typed<Number>(TOLERANCE).toDouble()
            return if (number >= 0 && number < 1e30) number else wrong(TOLERANCE)
        }

    /** A value of a tensor: whole numbers and bool as Long, others as Double. */
    val number: Number
        get() = when (value) {
            is Boolean -> if (value) 1L else 0L
            is Int -> value.toLong()
            is String -> SPECIAL[value] ?: wrong("a number")
            else -> typed<Number>("a number")
        }

    operator fun get(key: String): Json = Json(typed<JSONObject>("an object").opt(key), "$place$key: ")

    /** The value of a key, or null if the key is missing. */
    fun optional(key: String): Json? = get(key).takeIf { it.value != null }

    private inline fun <reified T> typed(expected: String): T = value as? T ?: wrong(expected)

    private fun wrong(expected: String): Nothing {
        val got = if (value is String) JSONObject.quote(value) else "${value ?: "nothing"}"
        throw JSONException("${place}got ${got.take(MOST)}, expected $expected")
    }

    companion object {
        private const val TOLERANCE = "0 <= number < 1e30"
        private const val MOST = 80 // characters of a value in an error
        private val SPECIAL = mapOf(
            "NaN" to Double.NaN, "Infinity" to Double.POSITIVE_INFINITY, "-Infinity" to Double.NEGATIVE_INFINITY
        )

        /** Reads a file. Unlike org.json, this refuses wrong UTF-8 and anything after the value. */
        fun <T> parse(content: ByteArray, name: String, read: (Json) -> T): T = try {
            val tokens = JSONTokener(Charsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString())
            val value = tokens.nextValue()
            if (tokens.nextClean() != '\u0000') throw tokens.syntaxError("got more after the value")
            read(Json(value, ""))
        } catch (error: CharacterCodingException) {
            throw damaged(name, error.message)
        } catch (error: JSONException) {
            throw damaged(name, error.message)
        }
    }
}

fun damaged(name: String, reason: String?) = BundleException("$name: is damaged: $reason: $AGAIN")
