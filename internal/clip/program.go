package clip

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// longestShort is how many bytes are kept as they are.
const longestShort = 512

// ShortTexts is the texts as they are, or one digest of them where they are long. What is short already stays as it is: two
// containers that run the same have the same texts, whether they were read from the API server or from a cache that keeps
// digests.
func ShortTexts(texts []string) []string {
	size := 0
	for _, text := range texts {
		size += len(text) + 1
	}
	if size <= longestShort {
		return texts
	}
	sum := sha256.New()
	for _, text := range texts {
		// With its length before it, no text can pass for two.
		_, _ = sum.Write([]byte(strconv.Itoa(len(text)) + ":" + text)) // it takes everything
	}
	return []string{"sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

// ShortText is ShortTexts of one text.
func ShortText(text string) string { return ShortTexts([]string{text})[0] }
