package prometheus_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"testing"

	"github.com/stretchr/testify/require"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, err := writer.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return out.Bytes()
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }
