// Checks a log by Go's own checksum-database packages: the checkpoint's note, every record's inclusion
// proof, every older tree's consistency proof, and the root hash that the tiles lead to.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type log struct {
	Key         string
	Note        string
	Bodies      [][]byte
	Inclusion   [][][]byte
	Roots       [][]byte
	Consistency [][][]byte
	Tiles       map[string][]byte
}

func main() {
	var l log
	must(json.NewDecoder(os.Stdin).Decode(&l))
	verifier, err := note.NewVerifier(l.Key)
	must(err)
	opened, err := note.Open([]byte(l.Note), note.VerifierList(verifier))
	must(err)
	lines := strings.Split(opened.Text, "\n")
	root, err := tlog.ParseHash(lines[2])
	must(err)
	size := int64(len(l.Bodies))
	if lines[1] != fmt.Sprint(size) {
		must(fmt.Errorf("size %s, records %d", lines[1], size))
	}
	for index, body := range l.Bodies {
		must(tlog.CheckRecord(hashes(l.Inclusion[index]), size, root, int64(index), tlog.RecordHash(body)))
	}
	for place, older := range l.Roots {
		must(tlog.CheckTree(hashes(l.Consistency[place]), size, root, int64(place+1), hash(older)))
	}
	fromTiles, err := tlog.TreeHash(size, tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, tiles(l.Tiles)))
	must(err)
	if fromTiles != root {
		must(fmt.Errorf("the tiles lead to another root hash"))
	}
	fmt.Println("ok", size)
}

type tiles map[string][]byte

func (t tiles) Height() int { return 8 }

func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range wanted {
		found, ok := t[fmt.Sprintf("%d/%d", tile.L, tile.N)]
		if !ok || len(found) < tile.W*32 {
			return nil, fmt.Errorf("no tile %d/%d of width %d", tile.L, tile.N, tile.W)
		}
		data = append(data, found[:tile.W*32])
	}
	return data, nil
}

func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func hash(raw []byte) (h tlog.Hash) {
	copy(h[:], raw)
	return
}

func hashes(raw [][]byte) []tlog.Hash {
	var found []tlog.Hash
	for _, each := range raw {
		found = append(found, hash(each))
	}
	return found
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
