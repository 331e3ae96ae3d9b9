package embedded

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
)

// openRepaired opens a database. Prometheus repairs a torn write-ahead log itself. What it cannot open is
// dropped piece by piece, the least first: blocks that cannot be read, then the newest hours, then all of
// it. What is lost are raw samples; profiles are checkpointed elsewhere.
func openRepaired(config Disk, log *slog.Logger) (*tsdb.DB, error) {
	// Prometheus leaves a block without a description where it is, for ever.
	dropBlocks(config.Dir, log, opens)
	db, err := tsdb.Open(config.Dir, warnings(log), nil, config.options(), nil)
	for _, drop := range []func(dir string, log *slog.Logger){dropBroken, dropNewest, dropAll} {
		if err == nil {
			return db, nil
		}
		log.Warn("the samples on disk cannot be opened: what is broken is dropped", "dir", config.Dir, "cause", err.Error())
		drop(config.Dir, log)
		db, err = tsdb.Open(config.Dir, warnings(log), nil, config.options(), nil)
	}
	return db, err
}

// dropBroken removes the blocks that cannot be read from end to end.
func dropBroken(dir string, log *slog.Logger) { dropBlocks(dir, log, readable) }

func dropBlocks(dir string, log *slog.Logger, check func(path string) error) {
	for _, block := range blocksIn(dir) {
		if err := check(block); err != nil {
			log.Warn("a block of raw samples is dropped: it cannot be read", "block", filepath.Base(block), "cause", err.Error())
			remove(block, log)
		}
	}
}

// dropNewest removes the newest hours, which are not in a block yet.
func dropNewest(dir string, log *slog.Logger) {
	for _, name := range []string{"wal", "wbl", "chunks_head"} {
		remove(filepath.Join(dir, name), log)
	}
	log.Warn("the raw samples of the newest hours are dropped: their log cannot be read", "dir", dir)
}

func dropAll(dir string, log *slog.Logger) {
	for _, block := range blocksIn(dir) {
		remove(block, log)
	}
	dropNewest(dir, log)
	log.Warn("all raw samples on disk are dropped", "dir", dir)
}

func remove(path string, log *slog.Logger) {
	if err := os.RemoveAll(path); err != nil {
		log.Error("removing raw samples", "path", path, "cause", err.Error())
	}
}

// blocksIn a folder: folders with the name of a block. Anything else is not ours.
func blocksIn(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var blocks []string
	for _, entry := range entries {
		if _, err := ulid.ParseStrict(entry.Name()); err == nil && entry.IsDir() {
			blocks = append(blocks, filepath.Join(dir, entry.Name()))
		}
	}
	return blocks
}

// opens looks at the ends of a block.
func opens(path string) error {
	block, err := tsdb.OpenBlock(nil, path, nil, nil)
	if err != nil {
		return err
	}
	return block.Close()
}

// readable reads a whole block, with its checksums.
func readable(path string) (err error) {
	block, err := tsdb.OpenBlock(nil, path, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, block.Close()) }()
	series, err := block.Index()
	if err != nil {
		return err
	}
	defer series.Close()
	data, err := block.Chunks()
	if err != nil {
		return err
	}
	defer data.Close()
	return readAll(series, data)
}

func readAll(series tsdb.IndexReader, data tsdb.ChunkReader) error {
	name, value := index.AllPostingsKey()
	postings, err := series.Postings(context.Background(), name, value)
	if err != nil {
		return err
	}
	builder := labels.NewScratchBuilder(0)
	var metas []chunks.Meta
	for postings.Next() {
		metas = metas[:0]
		if err := series.Series(postings.At(), &builder, &metas); err != nil {
			return err
		}
		for _, meta := range metas {
			if _, _, err := data.ChunkOrIterable(meta); err != nil {
				return err
			}
		}
	}
	return postings.Err()
}
