// The app: shows the likeliest next words while you type.

import { useState } from "react";
import { Pressable, ScrollView, StatusBar, StyleSheet, Text, TextInput, useColorScheme, View } from "react-native";
import { useNextWord } from "./useNextWord";

const LIGHT = { page: "#ffffff", text: "#1a1a1a", faint: "#5c5c5c", button: "#e4ecfa", error: "#b00020" };
const DARK = { page: "#121212", text: "#ececec", faint: "#a8a8a8", button: "#25344d", error: "#ff8a80" };

export default function App() {
  const isDark = useColorScheme() === "dark";
  const colors = isDark ? DARK : LIGHT;
  const [text, setText] = useState("Return a list of");
  const { suggestions, state, failed } = useNextWord(text);
  const add = (word: string) => setText(text + (text && !/\s$/.test(text) ? " " : "") + word);

  return (
    <ScrollView
      style={{ backgroundColor: colors.page }}
      contentContainerStyle={styles.page}
      contentInsetAdjustmentBehavior="automatic"
      keyboardShouldPersistTaps="handled"
    >
      <StatusBar barStyle={isDark ? "light-content" : "dark-content"} />
      <Text accessibilityRole="header" style={[styles.title, { color: colors.text }]}>
        Next word
      </Text>
      <TextInput
        accessibilityLabel="Text"
        autoCapitalize="none"
        autoCorrect={false}
        autoFocus
        multiline
        onChangeText={setText}
        style={[styles.input, { color: colors.text, borderColor: colors.faint }]}
        value={text}
      />
      <View style={styles.suggestions}>
        {suggestions.map(({ word, probability }) => (
          <Pressable
            key={word}
            accessibilityLabel={`Add the word ${word}`}
            accessibilityRole="button"
            onPress={() => add(word)}
            style={({ pressed }) => [styles.button, { backgroundColor: colors.button, opacity: pressed ? 0.6 : 1 }]}
          >
            <Text style={{ color: colors.text }}>{`${word} ${Math.round(100 * probability)} %`}</Text>
          </Pressable>
        ))}
      </View>
      <Text accessibilityLiveRegion="polite" style={{ color: failed ? colors.error : colors.faint }}>
        {state}
      </Text>
    </ScrollView>
  );
}

const styles = StyleSheet.create({
  page: { gap: 16, padding: 16, paddingTop: 16 + (StatusBar.currentHeight ?? 0) },
  title: { fontSize: 22, fontWeight: "600" },
  input: { borderRadius: 8, borderWidth: 1, fontSize: 17, minHeight: 88, padding: 12, textAlignVertical: "top" },
  suggestions: { flexDirection: "row", flexWrap: "wrap", gap: 8 },
  button: { borderRadius: 8, justifyContent: "center", minHeight: 48, paddingHorizontal: 16 },
});
