package ai.onnxruntime;

import ai.onnxruntime.TensorInfo.OnnxTensorType;
import java.util.Base64;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.json.JSONArray;
import org.json.JSONException;
import org.json.JSONObject;

/** A session of ONNX Runtime in another process. */
public class OrtSession implements AutoCloseable {
  private final int number;
  private final SessionOptions options;
  private boolean closed;

  OrtSession(String modelPath, SessionOptions options) throws OrtException {
    options.use();
    this.options = options;
    Process.registered = options.library;
    Map<String, Object> question = new LinkedHashMap<>();
    question.put("open", modelPath);
    question.put("library", options.library == null ? "" : options.library);
    number = Process.ask(question).optInt("session");
    Process.opened(this);
  }

  public Result run(Map<String, ? extends OnnxTensor> inputs) throws OrtException {
    options.use();
    if (closed) throw new IllegalStateException("a closed session was run");
    Map<String, Object> feeds = new LinkedHashMap<>();
    for (Map.Entry<String, ? extends OnnxTensor> input : inputs.entrySet()) {
      TensorInfo info = input.getValue().getInfo();
      Map<String, Object> tensor = new LinkedHashMap<>();
      tensor.put("dtype", info.onnxType.numpy);
      JSONArray shape = new JSONArray();
      for (long size : info.getShape()) shape.put(size);
      tensor.put("shape", shape);
      tensor.put("bytes", Base64.getEncoder().encodeToString(input.getValue().bytes));
      feeds.put(input.getKey(), new JSONObject(tensor));
    }
    Map<String, Object> question = new LinkedHashMap<>();
    question.put("run", number);
    question.put("inputs", new JSONObject(feeds));
    return new Result(Process.ask(question).optJSONObject("outputs"));
  }

  @Override
  public void close() throws OrtException {
    options.use();
    closed = true;
    Process.closed(this);
  }

  public static class SessionOptions implements AutoCloseable {
    private String library;
    private boolean closed;

    public SessionOptions() {
      Process.opened(this);
    }

    public void registerCustomOpLibrary(String path) throws OrtException {
      use();
      library = path;
    }

    private void use() {
      if (closed) throw new IllegalStateException("closed session options were used");
    }

    @Override
    public void close() {
      use();
      closed = true;
      Process.closed(this);
    }
  }

  public static class Result implements AutoCloseable {
    private final Map<String, OnnxValue> values = new LinkedHashMap<>();

    private Result(JSONObject outputs) throws OrtException {
      try {
        for (Iterator<?> names = outputs.keys(); names.hasNext(); ) {
          String name = (String) names.next();
          JSONObject output = outputs.getJSONObject(name);
          JSONArray sizes = output.getJSONArray("shape");
          long[] shape = new long[sizes.length()];
          for (int i = 0; i < shape.length; ++i) shape[i] = sizes.getLong(i);
          byte[] bytes = Base64.getDecoder().decode(output.getString("bytes"));
          values.put(name, new OnnxTensor(OnnxTensorType.of(output.getString("dtype")), shape, bytes));
        }
      } catch (JSONException error) {
        throw new OrtException(error.getMessage());
      }
    }

    public Optional<OnnxValue> get(String key) {
      return Optional.ofNullable(values.get(key));
    }

    public OnnxValue get(int index) {
      return (OnnxValue) values.values().toArray()[index];
    }

    @Override
    public void close() {
      values.values().forEach(OnnxValue::close);
    }
  }
}
