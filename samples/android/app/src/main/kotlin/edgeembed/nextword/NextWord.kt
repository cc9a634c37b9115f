package edgeembed.nextword

import ai.onnxruntime.OnnxTensor
import java.nio.LongBuffer
import kotlin.math.exp

private const val PADDING = 0L
private const val UNKNOWN = 1L
private const val COUNT = 3

// A word, or a single sign. The model was trained on words of the Python expression, which has the same meaning.
private const val PYTHON_TOKEN = "\\w+(?:[.'-]\\w+)*|[^\\w\\s]"

// The classes \w and \s of Python. Those of Java are ASCII only, and those of Android have other letters and spaces.
private const val LETTER = "\\p{L}\\p{N}_"
private const val SPACE = "\\u0009-\\u000d\\u001c-\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a" +
    "\\u2028\\u2029\\u202f\\u205f\\u3000"
const val TOKEN = "[$LETTER]+(?:[.'\\-][$LETTER]+)*|[^$LETTER$SPACE]"

class Suggestion(val word: String, val probability: Double)

/**
 * Suggests the next word of a text with the bundle of samples/next_word.
 *
 * @throws BundleException if the bundle is of another model.
 */
class NextWord(private val bundle: ModelBundle) {
    val notice: String? get() = bundle.notice
    private val token = Regex(TOKEN)
    private val words: List<String>
    private val ids: Map<String, Long>
    private val isWord: List<Boolean> // neither a sign nor <unk>

    init {
        val tokenizer = bundle.manifest.metadata("tokenizer")
        if (tokenizer != PYTHON_TOKEN) {
            throw BundleException(
                "$MANIFEST: got tokenizer $tokenizer, expected $PYTHON_TOKEN: export the model of samples/next_word"
            )
        }
        words = bundle.json("vocabulary.json") { json -> json.list.map { it.text } }
        ids = words.withIndex().associate { (id, word) -> word to id.toLong() }
        isWord = words.map(Regex("^[\\p{L}\\p{N}]")::containsMatchIn)
    }

    /** Ids of the words of a text, after the padding that begins every text. */
    fun encode(text: String): LongArray =
        longArrayOf(PADDING) + token.findAll(text).map { ids[it.value] ?: UNKNOWN }.toList()

    /** The likeliest next words, likeliest first. */
    fun suggest(text: String): List<Suggestion> {
        val logits = logits(encode(text))
        val largest = logits.fold(Float.NEGATIVE_INFINITY) { a, b -> maxOf(a, b) }
        val sum = logits.fold(0.0) { total, logit -> total + exp((logit - largest).toDouble()) }
        return logits.indices
            .filter { isWord[it] }
            .sortedByDescending { logits[it] }
            .take(COUNT)
            .map { Suggestion(words[it], exp((logits[it] - largest).toDouble()) / sum) }
    }

    /** One logit for each answer, after the last word. */
    private fun logits(ids: LongArray): FloatArray {
        val shape = longArrayOf(1, ids.size.toLong())
        return OnnxTensor.createTensor(bundle.environment, LongBuffer.wrap(ids), shape).use { input ->
            bundle.session.run(mapOf("ids" to input)).use { results ->
                val output = results["output"].get() as OnnxTensor
                val answers = output.info.shape[2].toInt() // output: [1, ids, answers]
                if (answers > words.size) {
                    throw BundleException(
                        "vocabulary.json: got ${words.size} words, expected $answers: export the bundle again"
                    )
                }
                val values = output.floatBuffer
                values.position((ids.size - 1) * answers)
                FloatArray(answers).also { values.get(it) }
            }
        }
    }
}
