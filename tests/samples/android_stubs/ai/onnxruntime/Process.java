package ai.onnxruntime;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import org.json.JSONException;
import org.json.JSONObject;

/** The process that runs models, onnxruntime_process.py, and the objects that are still open. */
public final class Process {
  private static final Set<Object> OPEN = Collections.newSetFromMap(new IdentityHashMap<>());
  /** The operator library of the last session. */
  public static String registered;

  private static Writer questions;
  private static BufferedReader answers;

  private Process() {}

  static void opened(Object object) {
    OPEN.add(object);
  }

  static void closed(Object object) {
    if (!OPEN.remove(object)) throw new IllegalStateException(object + " was closed twice");
  }

  /** The number of objects that an app must close. */
  public static int open() {
    return OPEN.size();
  }

  static JSONObject ask(Map<String, Object> question) throws OrtException {
    try {
      if (questions == null) start();
      questions.write(new JSONObject(question) + "\n");
      questions.flush();
      JSONObject answer = new JSONObject(answers.readLine());
      if (answer.has("error")) throw new OrtException(answer.getString("error"));
      return answer;
    } catch (IOException | JSONException error) {
      throw new OrtException(error.getMessage());
    }
  }

  private static void start() throws IOException {
    String[] command = {System.getProperty("python"), System.getProperty("onnxruntime.process")};
    java.lang.Process process =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    questions = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
    answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
  }
}
