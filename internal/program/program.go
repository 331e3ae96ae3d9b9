// Package program names what a container runs, in a few bytes however long it is. Two containers that run the same have the
// same name for it, whether they were read from the API server or from a cache that keeps only names.
package program

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// longest is how many bytes are kept as they are.
const longest = 512

// Short is the texts as they are, or one digest of them where they are long. What is short already stays as it is.
func Short(texts []string) []string {
	size := 0
	for _, text := range texts {
		size += len(text) + 1
	}
	if size <= longest {
		return texts
	}
	sum := sha256.New()
	for _, text := range texts {
		// With its length before it, no text can pass for two.
		_, _ = sum.Write([]byte(strconv.Itoa(len(text)) + ":" + text)) // it takes everything
	}
	return []string{"sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

// ShortText is Short of one text.
func ShortText(text string) string { return Short([]string{text})[0] }
